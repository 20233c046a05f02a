"""The auditor: what must be true of a run, from the evidence and the store.

The first group is what Jepsen's Kafka workload looks for, the second is Odradek's own (docs/CORRECTNESS.md).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from odradek.engine.engine import Engine
from odradek.engine.head import PartitionHead
from odradek.engine.log_reader import patched
from odradek.format.record_batch import decode_batches
from odradek.model.topic_partition import PartitionId

from tests.simulation.history import History, Poll

Log = list[tuple[int, bytes]]


async def audit(engine: Engine, history: History) -> list[str]:
    """Everything that is wrong; empty for a right run."""
    problems: list[str] = []
    logs: dict[PartitionId, Log] = {}
    for topic in await engine.topics.list():
        for number in range(topic.partition_count):
            partition = PartitionId(topic.topic_id, number)
            head = await engine.index.read_head(partition)
            if head is None:
                problems.append(f"missing head: {topic.name}-{number}")
                continue
            log, faults = await read_log(engine, partition, head)
            logs[partition] = log
            problems += [f"{topic.name}-{number}: {fault}" for fault in faults]
    for partition, log in logs.items():
        problems += [f"{partition}: {problem}" for problem in _against_history(partition, log, history)]
    return problems


async def read_log(engine: Engine, partition: PartitionId, head: PartitionHead) -> tuple[Log, list[str]]:
    """The whole log as stored, and what is wrong with the store: gaps, missing bytes, bad CRCs."""
    log: Log = []
    faults: list[str] = []
    engine.reader.forget(partition)
    if head.next_offset == head.log_start_offset:
        return log, faults
    pieces = await engine.reader.pieces(partition, head, head.log_start_offset)
    expected = None
    for piece in pieces:
        if expected is not None and piece.base_offset != expected:
            faults.append(f"gap in the index: {piece.base_offset} follows {expected}")
        expected = piece.end_offset
        try:
            [data] = await engine.pieces.read([piece])
            batch = b"".join(bytes(part) for part in patched(piece, data, head.leader_epoch))
            log += [(record.offset, record.value or b"") for record in decode_batches(batch, allow_truncated=False)]
        except Exception as error:
            faults.append(
                f"unreadable range [{piece.base_offset}, {piece.end_offset}): {type(error).__name__}: {error}"
            )
    if expected != head.next_offset:
        faults.append(f"the index ends at {expected}, the head at {head.next_offset}")
    return [entry for entry in log if entry[0] >= head.log_start_offset], faults


def _against_history(partition: PartitionId, log: Log, history: History) -> Iterator[str]:
    at = dict(log)
    first = log[0][0] if log else 0
    offsets = [offset for offset, _ in log]
    if offsets != list(range(first, first + len(offsets))):
        yield "offsets are not dense"
    for value, count in Counter(at.values()).items():
        if count > 1:
            yield f"duplicate: {value!r} is there {count} times"
    where = {value: offset for offset, value in log}
    ordered: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for send in history.sends:
        if send.partition != partition:
            continue
        offset = where.get(send.value)
        if send.outcome == "acked" and offset is None and (send.offset is None or send.offset >= first):
            yield f"lost write: {send.value!r} acknowledged at {send.offset} is not in the log"
        if send.offset is not None and offset is not None and send.offset != offset:
            yield f"inconsistent offset: {send.value!r} acknowledged at {send.offset} is at {offset}"
        if send.outcome == "failed" and offset is not None:
            yield f"aborted read: {send.value!r} failed but is at {offset}"
        if send.producer and offset is not None:
            ordered[send.producer].append((send.sequence, offset))
    for producer, places in ordered.items():
        places.sort()
        if [offset for _, offset in places] != sorted(offset for _, offset in places):
            yield f"non-monotonic sends of {producer}: {places}"
    for poll in history.polls:
        if poll.partition == partition:
            yield from _poll_problems(poll, at, first)


def _poll_problems(poll: Poll, at: dict[int, bytes], first: int) -> Iterator[str]:
    previous = None
    for offset, value in poll.records:
        if offset >= first and at.get(offset) != value:
            yield f"inconsistent offsets: {poll.consumer} read {value!r} at {offset}, the log has {at.get(offset)!r}"
        if previous is not None and offset <= previous:
            yield f"non-monotonic poll of {poll.consumer}: {offset} after {previous}"
        if previous is not None and offset > previous + 1 and previous + 1 >= first:
            yield f"skipped poll of {poll.consumer}: {offset} after {previous}"
        previous = offset
