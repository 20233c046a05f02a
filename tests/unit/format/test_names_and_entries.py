"""Object ids, object names and tail entries: the bytes and names that docs/formats promises."""

from __future__ import annotations

from uuid import UUID

import pytest
from odradek.errors import FormatError
from odradek.format import item_keys
from odradek.format.object_id import OBJECT_ID_BYTES, new_object_id, object_id_ms
from odradek.format.object_keys import (
    index_key,
    partition_prefix,
    segment_key,
    topic_prefix,
    wal_key,
    wal_key_below,
    wal_prefixes,
)
from odradek.format.tail_entry import (
    ENTRY_BYTES,
    FLAG_ITEM,
    TailEntry,
    decode_tail_entries,
    decode_tail_entry,
    encode_tail_entries,
    encode_tail_entry,
)
from odradek.model.topic_partition import PartitionId
from odradek.testing.seeded_rng import SeededRng

ID = bytes.fromhex("013bf3f8a400") + bytes(range(10))  # 2013-01-01 00:59:59 UTC
PARTITION = PartitionId(UUID("01234567-89ab-cdef-0123-456789abcdef"), 7)
ENTRY = TailEntry(ID, 4096, 1000, 10, 1_357_001_999_000, 4711, 3, 2**31 - 1, 1_357_002_000_000, FLAG_ITEM)


def test_an_object_id_carries_its_time_and_sorts_by_it() -> None:
    made = [new_object_id(ms, lambda count: b"\xff" * count) for ms in (0, 1, 1_357_001_999_000, 2**48 - 1)]
    assert [len(one) for one in made] == [OBJECT_ID_BYTES] * 4
    assert [object_id_ms(one) for one in made] == [0, 1, 1_357_001_999_000, 2**48 - 1]
    assert made == sorted(made)


def test_names_of_objects() -> None:
    hour = wal_key(ID).split("/")[2]
    assert hour.startswith("20130101")
    assert wal_key(ID) == f"wal/{ID.hex()[-1]}/{hour}/{ID.hex()}"
    assert topic_prefix(PARTITION) == "topics/01234567-89ab-cdef-0123-456789abcdef/"
    assert partition_prefix(PARTITION) == f"{topic_prefix(PARTITION)}7/"
    assert segment_key(PARTITION, 42, ID) == f"{partition_prefix(PARTITION)}00000000000000000042-{ID.hex()}.log"
    assert index_key(PARTITION, 42, ID) == segment_key(PARTITION, 42, ID)[: -len(".log")] + ".index"


def test_the_hour_of_a_wal_name_changes_on_the_hour_in_utc() -> None:
    before, after = (ms.to_bytes(6, "big") + b"\x0f" * 10 for ms in (1_356_998_399_999, 1_356_998_400_000))
    assert wal_key(before) == f"wal/f/2012123123/{before.hex()}"
    assert wal_key(after) == f"wal/f/2013010100/{after.hex()}"


def test_uploads_of_a_moment_spread_over_prefixes_and_sort_by_id_below_each() -> None:
    rng = SeededRng(1)
    ids = [new_object_id(1_356_998_399_000 + number, rng.random_bytes) for number in range(1_600)]
    by_prefix = {
        prefix: [object_id for object_id in ids if wal_key(object_id).startswith(prefix)] for prefix in wal_prefixes()
    }
    assert sum(map(len, by_prefix.values())) == len(ids)
    assert all(50 < len(some) < 150 for some in by_prefix.values()), "3,500 PUTs a second each"
    for prefix, some in by_prefix.items():
        names = [wal_key_below(prefix, object_id) for object_id in some]
        assert names == sorted(names) == [wal_key(object_id) for object_id in some]


def test_segment_names_sort_by_offset() -> None:
    names = [segment_key(PARTITION, offset, ID) for offset in (0, 9, 10, 99, 100, 2**63 - 1)]
    assert names == sorted(names)


def test_a_tail_entry_is_sixty_bytes_in_this_order() -> None:
    data = encode_tail_entry(ENTRY)
    assert len(data) == ENTRY_BYTES == 60
    assert data.hex() == (
        "0101"
        + ID.hex()
        + "00001000"
        + "000003e8"
        + "0000000a"
        + (1_357_001_999_000).to_bytes(8, "big").hex()
        + (4711).to_bytes(8, "big").hex()
        + "0003"
        + "7fffffff"
        + (1_357_002_000_000).to_bytes(8, "big").hex()
    )
    assert decode_tail_entry(data) == ENTRY
    assert ENTRY.is_item


def test_entries_follow_each_other_in_an_index_row() -> None:
    entries = [ENTRY, TailEntry(ID, 0, 1, 1, -1)]
    assert decode_tail_entries(encode_tail_entries(entries)) == entries
    assert decode_tail_entries(b"") == []


@pytest.mark.parametrize("data", [b"", b"\x01" * 59, b"\x01" * 61, b"\x02" + b"\x00" * 59])
def test_other_bytes_are_no_tail_entry(data: bytes) -> None:
    with pytest.raises(FormatError):
        decode_tail_entry(data)
    if data:
        with pytest.raises(FormatError):
            decode_tail_entries(data)


def test_a_field_out_of_range_is_refused() -> None:
    with pytest.raises(FormatError):
        encode_tail_entry(TailEntry(ID, 2**32, 1, 1, 0))


def test_no_two_partition_keys_are_the_same() -> None:
    keys = [value for name, value in vars(item_keys).items() if name.endswith("_PK")]
    assert len(keys) == len(set(keys)), "two kinds of items of one table would be taken for each other"
