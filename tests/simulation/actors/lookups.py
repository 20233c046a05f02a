"""Readers' other requests, against the records that entered the log: offsets by time, and records read before."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from odradek.engine.engine import Engine
from odradek.engine.read.log_reader import patched
from odradek.errors import ErrorCode, FormatError, ObjectMissing, StoreError
from odradek.format.item_keys import partition_pk
from odradek.model.log import MAX_TIMESTAMP, FetchPartition, ListOffsetsPartition
from odradek.model.record import Record
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId

from tests.simulation.actors.common import read_from
from tests.simulation.books.history import identity
from tests.simulation.world import World

_ATTEMPTS = 12
_READ_BYTES = (1, 300, 100_000)


async def look_up_by_time(
    world: World, engine: Engine, topic: Topic, number: int, *, is_patient: bool, at_any_time: bool = False
) -> None:
    """Ask for the first record of some time, or for the largest, of one partition, and judge the answer.

    Args:
        is_patient: not while a transaction is being applied.
        at_any_time: also while one is applied to the head: no transaction appends.
    """
    ledger, rng = world.ledger, world.rng
    partition = PartitionId(topic.topic_id, number)
    pk = partition_pk(partition)
    record_count = len(ledger.records(pk))
    heads_pk = partition_pk(partition.head_id)
    whole = () if at_any_time else (pk, heads_pk) if is_patient else (heads_pk,)
    if not record_count or not all(world.visibility.is_whole("log", pk_read, consistent=True) for pk_read in whole):
        return  # what a transaction wrote may not be seen yet
    asked_ms = ledger.records(pk)[rng.randrange(record_count)].timestamp_ms + rng.choice((0, 0, 1))
    is_largest = rng.random() < 0.2
    wanted = ListOffsetsPartition(topic.name, number, MAX_TIMESTAMP if is_largest else asked_ms)
    [result] = await engine.list_offsets([wanted])
    if result.error is not ErrorCode.NONE or not ledger.is_readable(pk) or topic.name in ledger.revived:
        return
    records = ledger.records(pk)
    subject = f"the {'largest time' if is_largest else f'first record of {asked_ms}'} in {partition}"
    if result.offset >= 0:
        is_there = result.offset < len(records)
        true_ms = records[result.offset].timestamp_ms if is_there else -1
        if result.timestamp_ms != true_ms or (not is_largest and true_ms < asked_ms):
            world.history.problem(f"{subject} is said to be {result.offset} at {result.timestamp_ms}, not {true_ms}")
    if ledger.was_compacted(topic.topic_id):
        return
    # What was there before the question, and is there still.
    certain = records[ledger.log_start(partition) : record_count]
    if is_largest:
        passed = [record.offset for record in certain if record.timestamp_ms > result.timestamp_ms]
    else:
        end = result.offset if result.offset >= 0 else record_count
        passed = [record.offset for record in certain if record.timestamp_ms >= asked_ms and record.offset < end]
    if passed:
        world.history.problem(f"{subject} is said to be {result.offset}, which passes over {passed[:3]}")


async def read_again(world: World, engine: Engine, topic: Topic, number: int, *, is_patient: bool) -> None:
    """Read one partition from some earlier offset on, as a consumer that seeks, and judge what comes.

    Args:
        is_patient: content with no answer, and rarely at the log's start, where retention and sweeps are at work.
    """
    ledger, rng = world.ledger, world.rng
    partition = PartitionId(topic.topic_id, number)
    record_count = len(ledger.records(partition_pk(partition)))
    start = ledger.log_start(partition)
    if start >= record_count:
        return
    offset = rng.randrange(start, record_count)
    if not is_patient and offset % 2:
        offset = start
    wanted = FetchPartition(topic.name, number, offset, rng.choice(_READ_BYTES), topic_id=topic.topic_id)
    reader = f"who read {partition} from {offset} on"
    [result] = await engine.fetch([wanted])
    for attempt in range(0 if is_patient else _ATTEMPTS):
        if result.error is not ErrorCode.KAFKA_STORAGE_ERROR or world.stop.is_set():
            break
        await asyncio.sleep(0.1 * attempt)
        [result] = await engine.fetch([wanted])
    else:
        if not is_patient:
            world.history.problem(f"{reader} never got an answer: {result.error.name}")
    if result.error is not ErrorCode.NONE:
        return
    try:
        records, _ = read_from(offset, result.records)
    except FormatError as error:
        world.history.problem(f"{reader} read damaged bytes: {error}")
        return
    _judge(world, reader, partition, offset, records)


async def read_in_bulk(world: World, engine: Engine, topic: Topic, number: int, *, is_patient: bool) -> None:
    """Read a range as a Spark job does: plan all of it, then get every piece, while the log is rewritten underneath.

    Args:
        is_patient: rarely from the log's start on, where retention and sweeps are at work.
    """
    ledger, rng = world.ledger, world.rng
    partition = PartitionId(topic.topic_id, number)
    start, record_count = ledger.log_start(partition), len(ledger.records(partition_pk(partition)))
    if start >= record_count:
        return
    offset = start if not is_patient and rng.random() < 0.5 else rng.randrange(start, record_count)
    end = rng.randrange(offset, record_count) + 1
    for _ in range(_ATTEMPTS):
        try:
            head = await engine.index.read_head(partition)
            if head is None or not head.log_start_offset <= offset < head.next_offset:
                return
            pieces = await engine.reader.pieces(partition, head, offset, end_offset=end)
            data = await engine.pieces.read(pieces)
        except ObjectMissing:
            engine.reader.forget(partition)
            continue
        except StoreError:
            return
        parts = [part for piece, stored in zip(pieces, data, strict=True) for part in patched(piece, stored, 0)]
        records, position = read_from(offset, parts)
        reader = f"who read {partition} from {offset} to {end} in bulk"
        _judge(world, reader, partition, offset, records)
        if position < min(end, head.next_offset):
            world.history.problem(f"{reader} was given nothing from {position} on")
        return


def _judge(world: World, reader: str, partition: PartitionId, offset: int, records: Sequence[Record]) -> None:
    """Note what is wrong with records that were read from an offset on."""
    truth = world.ledger.records(partition_pk(partition))
    last = offset - 1
    for record in records:
        if record.offset <= last or record.offset >= len(truth):
            world.history.problem(f"{reader} was given {record.offset} after {last}")
        elif identity(record) != truth[record.offset].identity:
            true = truth[record.offset].identity
            world.history.problem(f"{reader} was given {identity(record)!r} as {record.offset}, which is {true!r}")
        elif record.offset > last + 1 and not world.ledger.was_compacted(partition.topic_id):
            world.history.problem(f"{reader} was given {record.offset} after {last}")
        last = record.offset
