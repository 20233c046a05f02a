"""What the engine is asked and what it answers about share groups (KIP-932): queues over a log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from uuid import UUID

from odradek.errors import ErrorCode
from odradek.model.log import Buffer
from odradek.model.topic_partition import PartitionId

OPEN_SESSION_EPOCH = 0
CLOSE_SESSION_EPOCH = -1
NO_CHANGES: frozenset[PartitionId] = frozenset()


class AcknowledgeType(IntEnum):
    """What a consumer says of a record that was delivered to it. Numbers and names are Kafka's."""

    GAP = 0  # there is no record at this offset (a client's own word for what compaction left)
    ACCEPT = 1  # processed: never delivered again
    RELEASE = 2  # not processed: deliver it again, to anybody
    REJECT = 3  # cannot be processed: never delivered again, to the dead letters
    RENEW = 4  # still at it: lock it for another full duration


@dataclass(frozen=True, slots=True)
class AcknowledgementBatch:
    """Acknowledgements of neighbouring offsets, both ends included: one type for all, or one each."""

    first_offset: int
    last_offset: int
    types: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AcquiredRecords:
    """Offsets that are this member's until the lock ends, both ends included."""

    first_offset: int
    last_offset: int
    delivery_count: int  # this delivery included


@dataclass(frozen=True, slots=True)
class ShareFetchRequest:
    """A ShareFetch or, with `fetches` False, a ShareAcknowledge."""

    group_id: str
    member_id: str
    session_epoch: int  # 0 opens a session, -1 closes it, else the next of the session
    partitions: frozenset[PartitionId] = NO_CHANGES  # taken into the session
    forgotten: frozenset[PartitionId] = NO_CHANGES
    acknowledgements: Mapping[PartitionId, Sequence[AcknowledgementBatch]] = field(default_factory=dict)
    fetches: bool = True
    renews: bool = False  # renewals are among the acknowledgements
    max_wait_ms: int = 0
    min_bytes: int = 1
    max_bytes: int = 4 * 1024 * 1024
    max_records: int = 500
    is_strict: bool = False  # never more than max_records; else up to the end of a batch


@dataclass(frozen=True, slots=True)
class ShareFetchResult:
    """The outcome for one partition."""

    partition: PartitionId
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    acknowledge_error: ErrorCode = ErrorCode.NONE
    acknowledge_message: str | None = None
    records: Sequence[Buffer] = ()  # whole batches that hold what was acquired, and perhaps more
    acquired: tuple[AcquiredRecords, ...] = ()

    @property
    def size_bytes(self) -> int:
        return sum(len(part) for part in self.records)


@dataclass(frozen=True, slots=True)
class ShareFetchAnswer:
    """The answer as a whole. An error means that nothing was done."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    lock_duration_ms: int = 0
    results: tuple[ShareFetchResult, ...] = ()


@dataclass(frozen=True, slots=True)
class ShareOffset:
    """Where a group is in one partition; `start_offset` -1 where it has never read it."""

    topic: str
    topic_id: UUID | None
    partition: int
    start_offset: int = -1  # everything below is done
    lag: int = -1  # records from there on that are not done
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


@dataclass(frozen=True, slots=True)
class SharePolicy:
    """The configuration of a share group, as far as records in flight go by it."""

    lock_ms: int
    delivery_count_limit: int
    max_record_locks: int
    has_dead_letters: bool = False
