"""Keys go where Kafka's Java client sends them."""

from __future__ import annotations

import random

import pytest
from kafka.partitioner.default import murmur2 as peer_murmur2
from odradek.client.producer.partitioner import PartitionChooser, murmur2, partition_for_key
from odradek.errors import ErrorCode, KafkaError
from odradek.testing import SeededRng

# Values of Apache Kafka's own test of Utils.murmur2, as signed 32-bit integers.
JAVA = [
    (b"21", -973932308),
    (b"foobar", -790332482),
    (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
]


@pytest.mark.parametrize(("key", "expected"), JAVA)
def test_the_hash_is_that_of_the_java_client(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected & 0xFFFFFFFF


def test_the_hash_is_that_of_another_client_for_keys_of_any_length() -> None:
    chance = random.Random(7)
    for length in range(70):
        key = chance.randbytes(length)
        assert murmur2(key) == peer_murmur2(key) & 0xFFFFFFFF
        assert partition_for_key(key, 12) == (peer_murmur2(key) & 0x7FFFFFFF) % 12


def test_records_without_a_key_stick_to_a_partition_until_its_batch_is_sealed() -> None:
    chooser = PartitionChooser("default", SeededRng(3))
    chosen = set()
    for _ in range(30):
        first = chooser.choose("t", None, b"", 6)
        assert {chooser.choose("t", None, b"", 6) for _ in range(10)} == {first}
        chosen.add(first)
        chooser.batch_sealed("t", first)
    assert chosen == set(range(6))


def test_round_robin_ignores_keys() -> None:
    chooser = PartitionChooser("round_robin", SeededRng())
    assert [chooser.choose("t", b"same", b"", 3) for _ in range(6)] == [0, 1, 2, 0, 1, 2]


def test_a_custom_partitioner_decides_and_is_checked() -> None:
    chooser = PartitionChooser(lambda topic, key, value, count: len(value or b""), SeededRng())
    assert chooser.choose("t", None, b"xx", 3) == 2
    with pytest.raises(KafkaError, match="chose 3 for topic t") as failure:
        chooser.choose("t", None, b"xxx", 3)
    assert failure.value.code is ErrorCode.INVALID_PARTITIONS
