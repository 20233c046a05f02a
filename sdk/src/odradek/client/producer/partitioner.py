"""Chooses the partition of a record.

    with a key    toPositive(murmur2(key)) % partitions: the same partition as Kafka's Java client chooses
    without       sticky (KIP-480): all records to one partition until its batch is sealed, then another at random,
                  so that a request carries few large batches rather than many small ones

Rows of a table are partitioned by the same rules, by column (table_batches.py).
"""

from __future__ import annotations

from functools import lru_cache

from odradek.client.config import Partitioner
from odradek.errors import ErrorCode, KafkaError
from odradek.format.key_hash import murmur2, positive_hash
from odradek.ports.rng import Rng

__all__ = ["PartitionChooser", "murmur2", "partition_for_key"]

_KEYS_REMEMBERED = 65_536
_KEY_BYTES_REMEMBERED_MAX = 64


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the partition of a key, as the Java client's default partitioner chooses it."""
    if len(key) <= _KEY_BYTES_REMEMBERED_MAX:
        return _positive_hash(key) % partition_count
    return positive_hash(key) % partition_count


@lru_cache(_KEYS_REMEMBERED)
def _positive_hash(key: bytes) -> int:
    # Hashing in pure Python costs microseconds; most topics have far fewer keys than records.
    return positive_hash(key)


class PartitionChooser:
    """Chooses partitions for one producer; the caller holds its lock."""

    def __init__(self, partitioner: str | Partitioner, rng: Rng) -> None:
        self._custom = partitioner if callable(partitioner) else None
        self._is_default = partitioner == "default"
        self._rng = rng
        self._sticky: dict[str, int] = {}
        self._next: dict[str, int] = {}

    @property
    def is_custom(self) -> bool:
        """Return True if a function of the user chooses partitions."""
        return self._custom is not None

    @property
    def is_by_key(self) -> bool:
        """Return True if keys choose partitions as Kafka's default partitioner does."""
        return self._is_default

    def choose(self, topic: str, key: bytes | None, value: bytes | None, partition_count: int) -> int:
        """Return a partition p, 0 <= p < partition_count. Raises KafkaError(INVALID_PARTITIONS) for another one."""
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
        """Choose another partition for records without a key from now on."""
        if self._sticky.get(topic) == partition:
            del self._sticky[topic]
