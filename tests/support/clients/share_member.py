"""A member of a share group as a client library behaves: joins, opens a session, fetches, acknowledges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from odradek.engine.engine import Engine
from odradek.errors import ErrorCode
from odradek.format.record_batch import decode_batches
from odradek.model.group import LEAVE_EPOCH, GroupHeartbeat, GroupHeartbeatResult
from odradek.model.record import Record
from odradek.model.share import (
    AcknowledgementBatch,
    AcknowledgeType,
    ShareFetchAnswer,
    ShareFetchRequest,
    ShareFetchResult,
)
from odradek.model.topic_partition import PartitionId

ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
GAP = AcknowledgeType.GAP
Acks = dict[PartitionId, list[AcknowledgementBatch]]


class ShareMember:
    """One member; every request is of one session, opened at the first fetch."""

    def __init__(self, engine: Engine, member_id: str, *topics: str, group_id: str = "q") -> None:
        self.engine = engine
        self.member_id = member_id
        self.group_id = group_id
        self.topics = topics
        self.epoch = 0
        self.session_epoch = 0
        self.assignment: frozenset[PartitionId] = frozenset()
        self.answer = ShareFetchAnswer()

    async def beat(self) -> GroupHeartbeatResult:
        request = GroupHeartbeat(
            self.group_id, self.member_id, self.epoch, subscribed_topic_names=None if self.epoch else self.topics
        )
        result = await self.engine.share_groups.heartbeat(request)
        if result.error is ErrorCode.NONE:
            self.epoch = result.member_epoch
            if result.assignment is not None:
                self.assignment = frozenset(
                    PartitionId(topic_id, number)
                    for topic_id, numbers in result.assignment.items()
                    for number in numbers
                )
        elif result.error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            self.epoch = 0
        return result

    async def leave(self) -> ErrorCode:
        result = await self.engine.share_groups.heartbeat(GroupHeartbeat(self.group_id, self.member_id, LEAVE_EPOCH))
        self.epoch = 0
        return result.error

    async def request(self, epoch: int | None = None, **options: Any) -> ShareFetchAnswer:
        """One request of the session; `epoch` None is the next one."""
        epoch = self.session_epoch if epoch is None else epoch
        partitions = self.assignment if epoch == 0 else frozenset[PartitionId]()
        options.setdefault("partitions", partitions)
        self.answer = await self.engine.share.serve(ShareFetchRequest(self.group_id, self.member_id, epoch, **options))
        self.session_epoch = 0 if self.answer.error or epoch < 0 else epoch + 1
        return self.answer

    async def fetch(self, **options: Any) -> list[tuple[int, int, bytes | None]]:
        """(offset, delivery count, value) of what was acquired, over all partitions."""
        return [(record.offset, count, record.value) for _, record, count in await self.fetch_records(**options)]

    async def fetch_records(self, **options: Any) -> list[tuple[PartitionId, Record, int]]:
        response = await self.request(**options)
        assert response.error is ErrorCode.NONE, response
        return [
            (result.partition, *record_delivered)
            for result in response.results
            for record_delivered in delivered(result)
        ]

    async def acknowledge(self, acks: Acks, **options: Any) -> dict[PartitionId, ErrorCode]:
        """Codes by partition."""
        response = await self.request(acknowledgements=acks, fetches=False, **options)
        assert response.error is ErrorCode.NONE, response
        return {result.partition: result.acknowledge_error for result in response.results}

    async def close(self) -> None:
        await self.request(-1, fetches=False)

    def of(self, number: int, topic_id: Any = None) -> PartitionId:
        """The assigned partition of that number."""
        return next(partition for partition in sorted(self.assignment) if partition.partition == number)


def delivered(result: ShareFetchResult) -> list[tuple[Record, int]]:
    """The records of a partition that were acquired, with their delivery counts."""
    counts = _counts(result)
    records = decode_batches(b"".join(result.records), allow_truncated=False)
    return [(record, counts[record.offset]) for record in records if record.offset in counts]


def missing(result: ShareFetchResult) -> list[int]:
    """The offsets that were acquired and have no record any more: a client acknowledges them as gaps."""
    return sorted(_counts(result).keys() - {record.offset for record, _ in delivered(result)})


def _counts(result: ShareFetchResult) -> dict[int, int]:
    return {
        offset: batch.delivery_count
        for batch in result.acquired
        for offset in range(batch.first_offset, batch.last_offset + 1)
    }


def ack(first: int, last: int, *types: int) -> AcknowledgementBatch:
    return AcknowledgementBatch(first, last, tuple(map(int, types)))


def accept_all(offsets: Iterable[int]) -> list[AcknowledgementBatch]:
    """Accept these offsets."""
    return [ack(offset, offset, ACCEPT) for offset in offsets]


def runs_of(state: Any) -> Sequence[tuple[int, int, str]]:
    """(start, end, state) of a window's runs."""
    return [(run.start, run.end, run.state.name) for run in state.runs]
