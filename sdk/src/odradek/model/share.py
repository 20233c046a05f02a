"""Requests and responses of the engine for share groups (KIP-932): queues over a log."""

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
    """A consumer's verdict on a delivered record, with Kafka's numbers and names."""

    GAP = 0  # there is no record at this offset; clients use it for offsets that compaction removed
    ACCEPT = 1  # processed: never delivered again
    RELEASE = 2  # not processed: deliver it again, to any member
    REJECT = 3  # cannot be processed: never delivered again; goes to the dead letters
    RENEW = 4  # still being processed: lock it for another full duration


UNSEEN = 100
"""A type of our own client, beyond Kafka's: it closes and its application never saw the record. The delivery does not
count. Offsets that the member does not hold are passed over."""


@dataclass(frozen=True, slots=True)
class AcknowledgementBatch:
    """Acknowledgements of consecutive offsets, both ends included: one type for all, or one each."""

    first_offset: int
    last_offset: int
    types: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AcquiredRecords:
    """Offsets that belong to this member until the lock ends, both ends included."""

    first_offset: int
    last_offset: int
    delivery_count: int  # including this delivery


@dataclass(frozen=True, slots=True)
class ShareFetchRequest:
    """A ShareFetch or, with `fetches` False, a ShareAcknowledge."""

    group_id: str
    member_id: str
    session_epoch: int  # 0 opens a session, -1 closes it, else the next of the session
    partitions: frozenset[PartitionId] = NO_CHANGES  # added to the session
    forgotten: frozenset[PartitionId] = NO_CHANGES
    acknowledgements: Mapping[PartitionId, Sequence[AcknowledgementBatch]] = field(default_factory=dict)
    fetches: bool = True
    renews: bool = False  # renewals are among the acknowledgements
    max_wait_ms: int = 0
    min_bytes: int = 1
    max_bytes: int = 4 * 1024 * 1024
    max_records: int = 500
    is_strict: bool = False  # never more than max_records; otherwise up to the end of a batch


@dataclass(frozen=True, slots=True)
class ShareFetchResult:
    """The result for one partition."""

    partition: PartitionId
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    acknowledge_error: ErrorCode = ErrorCode.NONE
    acknowledge_message: str | None = None
    records: Sequence[Buffer] = ()  # whole batches with the acquired records, and possibly others
    acquired: tuple[AcquiredRecords, ...] = ()

    @property
    def size_bytes(self) -> int:
        return sum(len(part) for part in self.records)


@dataclass(frozen=True, slots=True)
class ShareFetchAnswer:
    """The whole response. After an error nothing was done."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    lock_duration_ms: int = 0
    results: tuple[ShareFetchResult, ...] = ()


@dataclass(frozen=True, slots=True)
class ShareOffset:
    """The position of a group in one partition; `start_offset` is -1 if the group has never read it."""

    topic: str
    topic_id: UUID | None
    partition: int
    start_offset: int = -1  # everything below is done
    lag: int = -1  # records from there on that are not done
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


@dataclass(frozen=True, slots=True)
class SharePolicy:
    """The part of a share group's configuration that concerns records in flight."""

    lock_ms: int
    delivery_count_limit: int
    max_record_locks: int
    has_dead_letters: bool = False
