"""Dead letters of share groups (KIP-1191): the lot of a window, written to the group's topic once.

    LOT (records, number k)  ──read──>  one batch  ──numbered batch k──>  the topic  ──>  LOT is DONE, number k + 1

The records of a lot are fixed while it has its number (share/window.py), and the topic takes a number of a window
once (numbered_batches.py). So any function that meets a lot may write it, several at once too: each record that still
is in the log arrives exactly once, and is done only after it has. Where the topic is missing or the store does not
answer, the lot stays, and the next request of the group tries again. Where the window has gone, nothing is written.

Each record carries headers that say where it stood and why it is there; it goes to the partition of the same number,
modulo the partitions of the topic.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from odradek.engine.catalog.topics import Topics
from odradek.engine.groups.configs import ShareConfig
from odradek.engine.share.items import ShareItem, letters_writer, share_key
from odradek.engine.share.window import Run
from odradek.engine.transactions.numbered_batches import NumberedBatches
from odradek.errors import ErrorCode, KafkaError
from odradek.format.record_decoder import decode_batches
from odradek.format.record_encoder import RecordBatchBuilder
from odradek.model.log import FetchPartition, FetchResult, ProducePartition
from odradek.model.record import Header, Record
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId
from odradek.ports.clock import Clock
from odradek.ports.table import Check, Compare
from odradek.ports.tables import TableOperation

PREFIX = "__dlq.errors."
REJECTED = "a consumer rejected the record"
EXHAUSTED = "the record reached the group's delivery limit without being accepted"
_READ_BYTES = 4 * 1024 * 1024
_ROOM_BYTES = 64 * 1024  # of a batch, for headers beside what was a batch before

Fetch = Callable[[Sequence[FetchPartition]], Awaitable[list[FetchResult]]]


class DeadLetters:
    """Writes lots; keeps nothing."""

    def __init__(self, fetch: Fetch, batches: NumberedBatches, topics: Topics, clock: Clock) -> None:
        self._fetch = fetch
        self._batches = batches
        self._topics = topics
        self._clock = clock

    async def write(
        self, group_id: str, topic: Topic, partition: PartitionId, item: ShareItem, config: ShareConfig
    ) -> None:
        """Write the lot of a window, once. Raises KafkaError, FormatError, StoreError: it may have been written."""
        target = await self._topics.resolve(config.dead_letter_topic)
        records: list[tuple[Run, Record]] = []
        for run in item.state.lot:
            records += [(run, record) for record in await self._read(topic, partition, run)]
        if not records:
            return  # retention or compaction was faster
        for chosen in (config.copies_records, False):
            batches = _batches(group_id, topic.name, partition.partition, records, self._clock.now_ms(), copies=chosen)
            try:
                uploaded = await self._batches.upload(
                    [ProducePartition(target.name, partition.partition % target.partition_count, batches)]
                )
            except KafkaError as error:
                # A record as large as a batch may be has no room for more headers: then only its place is told.
                if error.code is not ErrorCode.MESSAGE_TOO_LARGE or not chosen:
                    raise
                continue
            is_there = Check(share_key(group_id, partition), Compare(("i",), "=", item.incarnation))
            await self._batches.commit(
                letters_writer(item.incarnation),
                item.state.lot_number,
                uploaded,
                checks=[TableOperation("groups", is_there)],
            )
            return

    async def _read(self, topic: Topic, partition: PartitionId, run: Run) -> list[Record]:
        found: list[Record] = []
        offset = run.start
        while offset < run.end:
            request = FetchPartition(topic.name, partition.partition, offset, _READ_BYTES, topic_id=partition.topic_id)
            [result] = await self._fetch([request])
            if result.error is ErrorCode.OFFSET_OUT_OF_RANGE and result.log_start_offset > offset:
                offset = result.log_start_offset
                continue
            if result.error is not ErrorCode.NONE:
                raise KafkaError(result.error, result.message or result.error.name)
            records = [
                record
                for record in decode_batches(b"".join(result.records), allow_truncated=False)
                if record.offset >= offset
            ]
            if not records:
                break
            found += [record for record in records if record.offset < run.end]
            offset = records[-1].offset + 1
        return found


def _batches(
    group_id: str, topic: str, partition: int, records: Sequence[tuple[Run, Record]], now_ms: int, *, copies: bool
) -> bytes:
    """A batch for each record: one that is as large as a batch may be must not burden the others."""
    out = []
    for run, record in records:
        why = {
            "topic": topic,
            "partition": str(partition),
            "offset": str(record.offset),
            "group": group_id,
            "delivery.count": str(run.delivery_count),
            "message": REJECTED if run.is_rejected else EXHAUSTED,
        }
        told: list[Header] = [(PREFIX + name, text.encode()) for name, text in why.items()]
        builder = RecordBatchBuilder()
        if copies:
            builder.append(record.timestamp_ms, record.key, record.value, [*record.headers, *told])
        else:
            builder.append(now_ms, None, None, told)
        out.append(builder.build())
    return b"".join(out)
