"""Triggers: dispatchers that a queue wakes, each a process of its own, and the slow sweep.

The queue does to messages what queues do: some are lost, some come twice, some late, in any order. The function that is
called takes its time, fails now and then, whole or from some record on, and tells the book what it was given.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from odradek.engine.marks import Wake, decode_wake, encode_wake
from odradek.errors import FormatError, KafkaError, StoreError
from odradek.format.record_batch import decode_batches
from odradek.model.log import EARLIEST_TIMESTAMP, FetchPartition, ListOffsetsPartition, ProducePartition
from odradek.model.record import Record
from odradek.model.topic_partition import PartitionId, TopicPartition
from odradek.model.trigger import FunctionKind, Trigger
from odradek.ports.table import Put
from odradek.triggers.calls import Call, CallFailed, CallRefused
from odradek.triggers.definition import encode_trigger, trigger_key
from odradek.triggers.event import EventSource, encode_event
from odradek.triggers.failures import HEADER_PREFIX
from odradek.triggers.progress import lane_of
from odradek.triggers.triggers import head_ids
from odradek.triggers.wiring import TriggerParts, wire_triggers

from tests.simulation.actors.common import Payload, encode, look_up
from tests.simulation.books.history import Send
from tests.simulation.books.trigger_book import Known
from tests.simulation.plan import DEAD_TOPIC
from tests.simulation.world import Process, World

_LOST, _LATE, _TWICE = 0.1, 0.15, 0.15  # of the messages
_LATE_S = (0.5, 30.0, 1_200.0)
_FAILS, _REFUSED, _FAILS_PARTLY = 0.1, 0.03, 0.1  # of the calls
_VISIBILITY_S = 960.0  # after which a message that was not deleted comes again
_LIVES_S = 120.0  # of a dispatcher
_SWEEP_EVERY_S = 300.0
_PATIENCE_S = 8 * 3600.0
_AT_ONCE = 8
TIMEOUT_S = 20


class WakeQueue:
    """The queue, which all processes of a run share."""

    def __init__(self, world: World, *, is_kind: bool = False) -> None:
        self._world = world
        self._is_kind = is_kind
        self.messages: list[str] = []
        self.came = asyncio.Event()

    async def send(self, messages: Sequence[str], *, delay_s: int = 0) -> list[str]:
        """Implement TaskQueue.send, for the port of a process (store/ports.py)."""
        for message in messages:
            self.deliver(message, delay_s)
        return []

    async def waiting(self) -> int:
        return len(self.messages)

    def deliver(self, message: str, delay_s: float) -> None:
        """Deliver a message as the queue does."""
        rng = self._world.weather
        fate = rng.random()
        is_unkind = not self._world.is_calm and not self._is_kind
        if is_unkind and fate < _LOST:
            self._world.note(f"lost: {message}")
            return
        if is_unkind and fate < _LOST + _LATE:
            delay_s += rng.choice(_LATE_S)
        for _ in range(2 if fate > 1 - _TWICE else 1):
            asyncio.get_running_loop().call_later(delay_s, self._add, message)

    def _add(self, message: str) -> None:
        self.messages.append(message)
        self.came.set()


class BookedTarget:
    """The function that is called; of a tumbling window it keeps the records that it has seen as the state."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def call(self, call: Call) -> bytes:
        world = self._process.world
        event = json.loads(call.event)
        [(name, records)] = event["records"].items()
        records_called = [_known(record["offset"], record["value"], record["headers"]) for record in records]
        book, rng = world.trigger_book, world.weather
        number = book.begin(call.trigger.name, name, records_called, [record.get("key") for record in records])
        try:
            await asyncio.sleep(rng.random() * (0.9 * TIMEOUT_S if rng.random() < 0.1 else 0.2))
        except asyncio.CancelledError:
            book.end(number, [])
            raise
        fate = 1.0 if world.is_calm else rng.random()
        if fate < _FAILS:
            book.end(number, [])
            raise CallFailed("made to fail")
        if fate < _FAILS + _REFUSED:
            book.end(number, [])
            raise CallRefused("made to be refused")
        failed = len(records_called)
        if fate < _FAILS + _REFUSED + _FAILS_PARTLY and len(records_called) > 1:
            failed = rng.randrange(1, len(records_called))
        book.end(number, records_called[:failed])
        if event.get("isFinalInvokeForWindow"):
            book.final(
                call.trigger.name, name, [Known(*window_record) for window_record in event["state"].get("seen", ())]
            )
        response: dict[str, Any] = {
            "state": {"seen": [*event.get("state", {}).get("seen", ()), *records_called[:failed]]}
        }
        if failed < len(records_called):
            item = {"partition": name, "offset": records_called[failed].offset}
            response["batchItemFailures"] = [{"itemIdentifier": item}]
        return json.dumps(response).encode()


def _known(offset: int, value: str | None, headers: Any) -> Known:
    return Known(offset, json.dumps([value, headers]))


def _known_of(record: Record) -> Known:
    """The record of the log, as an event has it."""
    event = encode_event(EventSource("", ""), TopicPartition("t", 0), [record])
    [encoded] = json.loads(event)["records"]["t-0"]
    return _known(record.offset, encoded["value"], encoded["headers"])


def parts_of(process: Process) -> TriggerParts:
    """The parts of triggers in one process."""
    queue = process.engine.tools.wakes
    assert queue is not None
    more = {FunctionKind.WEBHOOK: BookedTarget(process)}
    return wire_triggers(process.engine, queue, EventSource("arn", "servers"), _nothing, more=more)


def _queue_of(world: World) -> WakeQueue:
    queue: WakeQueue = world.wakes
    return queue


def _nothing() -> Any:
    raise AssertionError("no trigger of the simulation needs AWS")


async def create_triggers(process: Process, triggers: Sequence[Trigger]) -> None:
    """Define triggers, and have their heads marked; their leases come with their first calls."""
    for trigger in triggers:
        await process.engine.catalog.put(Put(trigger_key(trigger.name), encode_trigger(trigger, 1)))
        topic = await process.engine.topics.resolve(trigger.topic)
        for head_id in head_ids(topic):
            _queue_of(process.world).deliver(encode_wake(Wake(head_id, trigger.name)), 0)


class TriggerFleet:
    """Starts a process for each message, several at a time, and sweeps now and then, until the run stops."""

    def __init__(self, world: World, *, sweeps: bool) -> None:
        self._world = world
        self._sweeps = sweeps

    async def run(self) -> None:
        sweeper = asyncio.ensure_future(self._sweep_now_and_then())
        slots = asyncio.Semaphore(_AT_ONCE)
        working: set[asyncio.Task[None]] = set()
        queue = _queue_of(self._world)
        while not self._world.stop.is_set():
            queue.came.clear()
            if not queue.messages:
                waits = [asyncio.ensure_future(event_flag.wait()) for event_flag in (queue.came, self._world.stop)]
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                for wait in waits:
                    wait.cancel()
                continue
            message = queue.messages.pop(self._world.weather.randrange(len(queue.messages)))
            await slots.acquire()
            task = asyncio.ensure_future(self._dispatch(message, slots))
            working.add(task)
            task.add_done_callback(working.discard)
        await asyncio.gather(sweeper, *working)

    async def _dispatch(self, message: str, slots: asyncio.Semaphore) -> None:
        try:
            process = self._world.process("dispatcher")
            if not await process.run(_handle(process, message)):
                _queue_of(self._world).deliver(message, _VISIBILITY_S)  # it was not deleted, and comes again
        finally:
            slots.release()

    async def _sweep_now_and_then(self) -> None:
        while not self._world.stop.is_set():
            if self._sweeps:
                process = self._world.process("trigger-sweep")
                await process.run(_sweep(process))
            await asyncio.sleep(_SWEEP_EVERY_S)


async def _handle(process: Process, message: str) -> None:
    """One invocation. A message that fails comes again."""
    deadline_s = asyncio.get_running_loop().time() + _LIVES_S
    try:
        await parts_of(process).dispatcher.handle(decode_wake(message), deadline_s)
    except (StoreError, KafkaError, FormatError) as error:
        process.world.note(f"{process.name}: {type(error).__name__}: {error}")
        _queue_of(process.world).deliver(message, 30.0)


async def _sweep(process: Process) -> None:
    try:
        sent, failures = await parts_of(process).sweep.run()
    except StoreError:
        return
    process.world.work["triggers_woken"] += sent
    for failure in failures:
        process.world.note(f"{process.name}: {failure}")


async def triggers_at_rest(world: World, *, sweeps: bool) -> list[str]:
    """Once nothing fails any more, every trigger gets to the end of its topic.

    Args:
        sweeps: what lost messages left is found; else one more append finds the marks of appends that died.
    """
    give_up = asyncio.get_running_loop().time() + _PATIENCE_S
    observer = world.process("trigger-observer", 0)
    if not sweeps:
        await _append_once_more(observer, {trigger.topic for trigger in world.trigger_book.triggers})
    while True:
        left = []
        for trigger in world.trigger_book.triggers:
            status = await parts_of(observer).triggers.describe(trigger.name)
            left += [f"{trigger.name} {partition.partition}" for partition in status.partitions if partition.lag]
            if trigger.tumbling_window_s:  # the last window ends by the clock
                left += [
                    f"{trigger.name} {partition.partition}" for partition in status.partitions if partition.retry_ms
                ]
        if not left:
            return []
        if asyncio.get_running_loop().time() > give_up:
            return [f"triggers are stuck before the end of {', '.join(left)}"]
        await asyncio.sleep(60)


async def _append_once_more(observer: Process, topics: set[str]) -> None:
    for name in sorted(topics):
        topic = await look_up(observer.engine, name)
        for number in range(0 if topic is None else topic.partition_count):
            assert topic is not None
            identity = f"once-more-{number}".encode()
            send = Send(identity, PartitionId(topic.topic_id, number), "", 0)
            observer.world.history.sends.append(send)
            [result] = await observer.engine.produce([ProducePartition(name, number, encode([Payload(identity)]))])
            send.outcome, send.offset = "acked", result.base_offset


async def audit_triggers(world: World, auditor: Process) -> list[str]:
    """Every record handed over, in order within its lane, one call of a lane at a time, and in one window."""
    problems = list(world.trigger_book.problems)
    for trigger in world.trigger_book.triggers:
        topic = await look_up(auditor.engine, trigger.topic)
        for number in range(0 if topic is None else topic.partition_count):
            records = await _read(auditor, trigger.topic, number)
            records_logged = [_known_of(record) for record in records]
            lanes: dict[int, list[Known]] = {}
            for record, logged in zip(records, records_logged, strict=True):
                lanes.setdefault(lane_of(record, trigger.parallelization_factor), []).append(logged)
            name = f"{trigger.topic}-{number}"
            given_up = await _given_up(auditor, trigger, number, records) if trigger.on_failure else []
            problems += world.trigger_book.audit(trigger.name, name, lanes, given_up)
            if trigger.tumbling_window_s:
                problems += world.trigger_book.audit_windows(trigger.name, name, records_logged)
    return problems


async def _read(auditor: Process, topic: str, number: int) -> list[Record]:
    """The records of a partition that retention has left."""
    [at] = await auditor.engine.list_offsets([ListOffsetsPartition(topic, number, EARLIEST_TIMESTAMP)])
    records, offset = [], max(0, at.offset)
    while True:
        [result] = await auditor.engine.fetch([FetchPartition(topic, number, offset)])
        new_records = [record for record in decode_batches(b"".join(result.records)) if record.offset >= offset]
        if not new_records:
            return records
        records += new_records
        offset = new_records[-1].offset + 1


async def _given_up(auditor: Process, trigger: Trigger, number: int, records: Sequence[Record]) -> list[Known]:
    """The records of a partition that are in the failure topic, with why."""
    by_offset = {record.offset: record for record in records}
    given_up_records = []
    dead = await auditor.engine.topics.resolve(DEAD_TOPIC)
    for dead_partition in range(dead.partition_count):
        for record in await _read(auditor, DEAD_TOPIC, dead_partition):
            said = {name.removeprefix(HEADER_PREFIX): value for name, value in record.headers}
            if (said.get("name"), said.get("partition")) != (trigger.name.encode(), str(number).encode()):
                continue
            original = by_offset.get(int(said["offset"] or b"-1"))
            if original is not None and original.value == record.value:
                given_up_records.append(_known_of(original))
    return given_up_records
