"""Offsets by time (ListOffsets), of whoever reads a log, against what entered it."""

from __future__ import annotations

from odradek.engine.engine import Engine
from odradek.errors import ErrorCode
from odradek.format.item_keys import partition_pk
from odradek.model.log import MAX_TIMESTAMP, ListOffsetsPartition
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId

from tests.simulation.world import World


async def look_up_by_time(world: World, engine: Engine, topic: Topic, number: int) -> None:
    """Ask for the first record of some time, or for the largest, of one partition, and judge the answer."""
    ledger, rng = world.ledger, world.rng
    partition = PartitionId(topic.topic_id, number)
    pk = partition_pk(partition)
    known = len(ledger.records(pk))
    if not known:
        return
    asked_ms = ledger.records(pk)[rng.randrange(known)].timestamp_ms + rng.choice((0, 0, 1))
    is_largest = rng.random() < 0.2
    wanted = ListOffsetsPartition(topic.name, number, MAX_TIMESTAMP if is_largest else asked_ms)
    [result] = await engine.list_offsets([wanted])
    if result.error is not ErrorCode.NONE or not ledger.is_readable(pk) or topic.name in ledger.revived:
        return
    records = ledger.records(pk)
    what = f"the {'largest time' if is_largest else f'first record of {asked_ms}'} in {partition}"
    if result.offset >= 0:
        is_there = result.offset < len(records)
        true_ms = records[result.offset].timestamp_ms if is_there else -1
        if result.timestamp_ms != true_ms or (not is_largest and true_ms < asked_ms):
            world.history.problem(f"{what} is said to be {result.offset} at {result.timestamp_ms}, not {true_ms}")
    if ledger.was_compacted(topic.topic_id):
        return
    # What was there before the question, and is there still.
    certain = records[ledger.log_start(partition) : known]
    if is_largest:
        passed = [record.offset for record in certain if record.timestamp_ms > result.timestamp_ms]
    else:
        end = result.offset if result.offset >= 0 else known
        passed = [record.offset for record in certain if record.timestamp_ms >= asked_ms and record.offset < end]
    if passed:
        world.history.problem(f"{what} is said to be {result.offset}, which passes over {passed[:3]}")
