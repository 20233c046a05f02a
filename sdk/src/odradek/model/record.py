"""Records as clients see them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

Header = tuple[str, bytes | None]


class TimestampType(IntEnum):
    """Attribute bit 3 of a record batch."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class CompressionType(IntEnum):
    """Attribute bits 0-2 of a record batch."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


@dataclass(frozen=True, slots=True)
class Record:
    """A record inside a batch: offset and timestamp are absolute, `None` differs from empty."""

    offset: int
    timestamp_ms: int  # since the Unix epoch, may be negative
    key: bytes | None
    value: bytes | None  # None is a tombstone
    headers: tuple[Header, ...] = ()


class BatchHeader(NamedTuple):
    """The fixed 61 bytes of a RecordBatch v2 (docs/formats/record_batch.md). A tuple, which is made fast."""

    base_offset: int
    batch_length: int  # bytes after this field; the whole batch is batch_length + 12 bytes
    partition_leader_epoch: int
    magic: int
    crc: int  # CRC-32C of everything from `attributes` to the end
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int  # -1: none
    producer_epoch: int  # -1: none
    base_sequence: int  # -1: none
    record_count: int

    @property
    def size_bytes(self) -> int:
        return self.batch_length + 12

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> CompressionType:
        """The compression type. Raises ValueError for the reserved codes 5-7."""
        return CompressionType(self.attributes & 0x07)

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType((self.attributes >> 3) & 1)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & 0x10)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & 0x20)

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time from which compaction may drop the batch's tombstones; None before any compaction (KIP-534)."""
        return self.base_timestamp_ms if self.attributes & 0x40 else None
