"""Requests and responses of the engine for a log: append, fetch, list offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from odradek.errors import ErrorCode

Buffer = bytes | bytearray | memoryview

# Timestamps with a special meaning in ListOffsets (KIP-79, KIP-405, KIP-734).
LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL_TIMESTAMP = -4
LATEST_TIERED_TIMESTAMP = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP = -6

OFFSET_END = 2**63 - 1  # after every offset


@dataclass(frozen=True, slots=True)
class ProducePartition:
    """The batches of one partition in a produce request. Name the topic by `topic` or by `topic_id`."""

    topic: str
    partition: int
    records: Buffer  # one or more whole RecordBatch v2
    topic_id: UUID | None = None
    expected_offset: int | None = None  # conditional produce: append only if next_offset is this
    chosen_by: int | None = None  # partitions by which the keys chose this one: append only if there are no more
    connection: int | None = None  # id of its connection: batches of one connection stay in order. None: no connection
    valid_until_s: float | None = None  # monotonic; its topic must be resolved by then. None: whenever


@dataclass(frozen=True, slots=True)
class ProduceResult:
    """The outcome for one partition of a produce request."""

    topic: str
    partition: int
    error: ErrorCode = ErrorCode.NONE
    base_offset: int = -1
    log_append_time_ms: int = -1  # -1 under CreateTime
    log_start_offset: int = -1
    message: str | None = None  # for people: the remedy
    current_leader_id: int = -1
    current_leader_epoch: int = -1
    topic_id: UUID | None = None
    next_offset: int = -1  # where the log ends: told to a conditional produce that expected another offset
    record_errors: tuple[tuple[int, str], ...] = ()  # records that are the reason, by their index in the batch


@dataclass(frozen=True, slots=True)
class FetchPartition:
    """One partition of a fetch request. Name the topic by `topic` or by `topic_id`."""

    topic: str
    partition: int
    offset: int
    max_bytes: int = 1 << 20
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    topic_id: UUID | None = None
    end_offset: int | None = None  # nothing behind the batch that reaches it is wanted


@dataclass(frozen=True, slots=True)
class FetchResult:
    """The result for one partition of a fetch request. The first batch may start before the requested offset."""

    topic: str
    partition: int
    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    log_start_offset: int = -1
    records: Sequence[Buffer] = ()  # whole batches, offsets patched, in order
    message: str | None = None
    current_leader_id: int = -1
    current_leader_epoch: int = -1
    topic_id: UUID | None = None
    preferred_read_replica: int = -1  # the broker to read from instead (KIP-392)

    @property
    def size_bytes(self) -> int:
        return sum(len(part) for part in self.records)


@dataclass(frozen=True, slots=True)
class DeleteRecordsPartition:
    """Records to delete: all below the offset; -1 stands for the high watermark."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class DeleteRecordsResult:
    """The outcome for one partition: its low watermark, which is the log start offset."""

    topic: str
    partition: int
    error: ErrorCode = ErrorCode.NONE
    low_watermark: int = -1
    message: str | None = None


@dataclass(frozen=True, slots=True)
class ListOffsetsPartition:
    """A partition of ListOffsets with a timestamp in ms since the epoch, or one of the constants above."""

    topic: str
    partition: int
    timestamp_ms: int
    current_leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class ListOffsetsResult:
    """The first offset whose timestamp is at least the requested one; -1, -1 if there is none."""

    topic: str
    partition: int
    error: ErrorCode = ErrorCode.NONE
    offset: int = -1
    timestamp_ms: int = -1
    leader_epoch: int = -1
    message: str | None = None


@dataclass(frozen=True, slots=True)
class EpochEndPartition:
    """A partition of OffsetForLeaderEpoch with a leader epoch."""

    topic: str
    partition: int
    leader_epoch: int
    current_leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class EpochEndResult:
    """The largest epoch up to the requested one with records, and its end offset; -1, -1 if unknown."""

    topic: str
    partition: int
    error: ErrorCode = ErrorCode.NONE
    leader_epoch: int = -1
    end_offset: int = -1
    message: str | None = None
