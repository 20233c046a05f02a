"""The store at the end of a run, against the true logs: nothing missing, nothing changed, nothing too much."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.engine.engine import Engine
from odradek.engine.partition.head import PartitionHead
from odradek.engine.read.log_reader import patched
from odradek.errors import FormatError, StoreError
from odradek.format.record_batch import decode_batches
from odradek.model.record import Record
from odradek.model.topic_partition import PartitionId

from tests.simulation.books.history import identity
from tests.simulation.books.truth import TrueLog


async def audit_log(engine: Engine, log: TrueLog) -> list[str]:
    """What is wrong with one partition as it is stored."""
    try:
        head = await engine.index.read_head(log.partition)
    except FormatError as error:
        return [f"{log.partition}: the head cannot be read: {error}"]
    if head is None:
        return [f"{log.partition}: the head is missing"]
    stored, problems = await read_log(engine, log.partition, head)
    problems += _against_truth(stored, log)
    return [f"{log.partition}: {problem}" for problem in problems]


async def read_log(engine: Engine, partition: PartitionId, head: PartitionHead) -> tuple[list[Record], list[str]]:
    """Every stored record from the log start on; and missing bytes, bad CRCs."""
    found: list[Record] = []
    problems: list[str] = []
    engine.reader.forget(partition)
    if head.next_offset == head.log_start_offset:
        return found, problems
    try:
        pieces = await engine.reader.pieces(partition, head, head.log_start_offset)
    except (StoreError, FormatError) as error:
        return found, [f"cannot be read: {type(error).__name__}: {error}"]
    for piece in pieces:
        try:
            [data] = await engine.pieces.read([piece])
            batches = b"".join(bytes(part) for part in patched(piece, data, head.leader_epoch))
            found += decode_batches(batches, allow_truncated=False)
        except Exception as error:
            problems.append(f"[{piece.base_offset}, {piece.end_offset}) is unreadable: {type(error).__name__}: {error}")
    return [record for record in found if record.offset >= head.log_start_offset], problems


def _against_truth(stored: list[Record], log: TrueLog) -> Iterator[str]:
    there: set[int] = set()
    for record in stored:
        if record.offset >= len(log.records):
            yield f"a record at {record.offset} that never entered"
            continue
        true = log.records[record.offset]
        if (identity(record), record.key) != (true.identity, true.key):
            yield f"changed: {identity(record)!r} is stored at {record.offset}, {true.identity!r} entered there"
        if record.offset in there:
            yield f"{record.offset} is stored twice"
        there.add(record.offset)
    lost = [record.offset for record in log.records if record.offset not in there and log.must_survive(record)]
    if lost:
        yield f"lost: {len(lost)} records that must survive, the first at {lost[0]} (log start {log.log_start})"
