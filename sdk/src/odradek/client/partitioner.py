"""Which partition a record goes to.

    key given     toPositive(murmur2(key)) % partitions: the same partition as Kafka's Java client chooses
    no key        sticky (KIP-480): all records to one partition until its batch is sealed, then another at random,
                  so that a request carries few large batches rather than many small ones

`murmur2` is Austin Appleby's MurmurHash2 with the seed of the Java client, in 32-bit arithmetic.
"""

from __future__ import annotations

from functools import lru_cache

from odradek.client.config import Partitioner
from odradek.errors import ErrorCode, KafkaError
from odradek.ports.rng import Rng

_SEED = 0x9747B28C
_M = 0x5BD1E995
_R = 24
_MASK = 0xFFFFFFFF
_KEYS_REMEMBERED = 65_536
_KEY_BYTES_REMEMBERED_MAX = 64


def murmur2(data: bytes) -> int:
    """The hash as an unsigned 32-bit integer."""
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k ^= k >> _R
        h = h * _M & _MASK ^ k * _M & _MASK
    if length > whole:
        h ^= int.from_bytes(data[whole:], "little")
        h = h * _M & _MASK
    h ^= h >> 13
    h = h * _M & _MASK
    return h ^ h >> 15


def partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition of a key, as the Java client's default partitioner chooses it."""
    if len(key) <= _KEY_BYTES_REMEMBERED_MAX:
        return _positive_hash(key) % partition_count
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


@lru_cache(_KEYS_REMEMBERED)
def _positive_hash(key: bytes) -> int:
    # Hashing in pure Python costs microseconds; most topics have far fewer keys than records.
    return murmur2(key) & 0x7FFFFFFF


class PartitionChooser:
    """Chooses partitions for one producer; the caller holds its lock."""

    def __init__(self, partitioner: str | Partitioner, rng: Rng) -> None:
        self._custom = partitioner if callable(partitioner) else None
        self._is_default = partitioner == "default"
        self._rng = rng
        self._sticky: dict[str, int] = {}
        self._next: dict[str, int] = {}

    def choose(self, topic: str, key: bytes | None, value: bytes | None, partition_count: int) -> int:
        """The partition, 0 <= p < partition_count. Raises KafkaError(INVALID_PARTITIONS) for a custom choice beyond."""
        if self._is_default:
            if key is not None:
                if len(key) <= _KEY_BYTES_REMEMBERED_MAX:
                    return _positive_hash(key) % partition_count
                return partition_for_key(key, partition_count)
            sticky = self._sticky.get(topic)
            if sticky is None or sticky >= partition_count:
                sticky = self._sticky[topic] = int(self._rng.random() * partition_count)
            return sticky
        if self._custom is None:
            turn = self._next.get(topic, 0)
            self._next[topic] = turn + 1
            return turn % partition_count
        chosen = self._custom(topic, key, value, partition_count)
        if not isinstance(chosen, int) or not 0 <= chosen < partition_count:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS,
                f"the partitioner chose {chosen!r} for topic {topic}, which has {partition_count} partitions",
            )
        return chosen

    def batch_sealed(self, topic: str, partition: int) -> None:
        """Records without a key go to another partition from now on."""
        if self._sticky.get(topic) == partition:
            del self._sticky[topic]
