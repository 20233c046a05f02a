"""The store at the end of a run, against the true logs: nothing missing, nothing changed, nothing too much."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.engine.engine import Engine
from odradek.engine.partition.head import PartitionHead
from odradek.engine.read.log_reader import patched
from odradek.errors import ErrorCode, FormatError, StoreError
from odradek.format.record_batch import decode_batches
from odradek.model.log import FetchPartition
from odradek.model.record import Record
from odradek.model.topic_partition import PartitionId

from tests.simulation.actors.common import read_from
from tests.simulation.audit.truth import TrueLog
from tests.simulation.books.history import identity


async def audit_log(engine: Engine, log: TrueLog) -> list[str]:
    """Find errors in one partition as it is stored."""
    try:
        head = await engine.index.read_head(log.partition)
    except FormatError as error:
        return [f"{log.partition}: the head cannot be read: {error}"]
    if head is None:
        return [f"{log.partition}: the head is missing"]
    stored, problems = await read_log(engine, log.partition, head)
    problems += _against_truth(stored, log)
    if log.was_compacted:
        problems += await _to_the_end(engine, log.partition)
    return [f"{log.partition}: {problem}" for problem in problems]


async def read_log(engine: Engine, partition: PartitionId, head: PartitionHead) -> tuple[list[Record], list[str]]:
    """Every stored record from the log start on; and missing bytes, bad CRCs."""
    records: list[Record] = []
    problems: list[str] = []
    engine.reader.forget(partition)
    if head.next_offset == head.log_start_offset:
        return records, problems
    try:
        pieces = await engine.reader.pieces(partition, head, head.log_start_offset)
    except (StoreError, FormatError) as error:
        return records, [f"cannot be read: {type(error).__name__}: {error}"]
    for piece in pieces:
        try:
            [data] = await engine.pieces.read([piece])
            batches = b"".join(bytes(part) for part in patched(piece, data, head.leader_epoch))
            records += decode_batches(batches, allow_truncated=False)
        except Exception as error:
            problems.append(f"[{piece.base_offset}, {piece.end_offset}) is unreadable: {type(error).__name__}: {error}")
    return [record for record in records if record.offset >= head.log_start_offset], problems


async def _to_the_end(engine: Engine, partition: PartitionId) -> list[str]:
    """Check that a consumer gets to the high watermark, past records that compaction has removed."""
    topic = await engine.topics.get_by_id(partition.topic_id)
    head = await engine.index.read_head(partition)
    if topic is None or head is None:
        return []
    position = head.log_start_offset
    while position < head.next_offset:
        wanted = FetchPartition(topic.name, partition.partition, position, topic_id=topic.topic_id)
        [result] = await engine.fetch([wanted])
        if result.error is not ErrorCode.NONE:
            return [f"cannot be fetched from {position}: {result.error.name} {result.message}"]
        before, (_, position) = position, read_from(position, result.records)
        if position == before:
            return [f"a consumer at {position} is given nothing, and never gets to {head.next_offset}"]
    return []


def _against_truth(stored: list[Record], log: TrueLog) -> Iterator[str]:
    stored_offsets: set[int] = set()
    for record in stored:
        if record.offset >= len(log.records):
            yield f"a record at {record.offset} that never entered"
            continue
        true = log.records[record.offset]
        if (identity(record), record.key) != (true.identity, true.key):
            yield f"changed: {identity(record)!r} is stored at {record.offset}, {true.identity!r} entered there"
        if record.offset in stored_offsets:
            yield f"{record.offset} is stored twice"
        stored_offsets.add(record.offset)
    lost = [record.offset for record in log.records if record.offset not in stored_offsets and log.must_survive(record)]
    if lost:
        yield f"lost: {len(lost)} records that must survive, the first at {lost[0]} (log start {log.log_start})"
