"""The two functions of maintenance: one plans and sends, one does what messages say and names those to come again."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from odradek.adapters.memory import MemoryTaskQueue
from odradek.engine.maintenance.maintenance import Maintenance, MaintenancePlan, MaintenanceReport
from odradek.errors import KafkaError
from odradek.format.maintenance_task import MaintenanceTask, TaskKind, decode_task, encode_task
from odradek.functions.invoked import Instruments
from odradek.functions.maintainer import MaintainerHandler
from odradek.functions.maintenance import MaintenanceHandler
from odradek.functions.metering import InvocationMeter
from odradek.local.context import LocalContext
from odradek.model.topic_partition import PartitionId
from odradek.settings import Settings
from odradek.testing.faults import Fault

from tests.support.engine import Store, batch, memory_store, produce

SPILLING = {"head_bytes_max": 400, "spill_entries": 2, "merge_rows_min": 1}


@pytest.fixture
async def store() -> Store:
    """Three partitions with something to merge, and an upload to sweep."""
    store = memory_store(per_head=1)
    engine = store.engine(**SPILLING)
    await engine.topics.create("t", 3)
    for i in range(30):
        assert not (await produce(engine, "t", i % 3, batch([b"%d" % i]))).error
    store.clock.advance(61)
    return store


def context(store: Store, seconds: float = 900) -> LocalContext:
    clock = store.clock
    return LocalContext(
        function_name="f",
        memory_limit_in_mb=1024,
        aws_request_id="request",
        deadline_s=clock.monotonic() + seconds,
        monotonic=clock.monotonic,
    )


def instruments(store: Store, lines: list[str]) -> Instruments:
    return Instruments(clock=store.clock, meter=InvocationMeter(), write_line=lines.append)


def planner(store: Store, lines: list[str], queue: MemoryTaskQueue | None) -> MaintenanceHandler:
    engine = store.engine(1, **SPILLING)
    return MaintenanceHandler(
        engine.maintenance, instruments(store, lines), rng=engine.rng, queue=queue, backlogs=engine.backlogs
    )


def maintainer(store: Store, lines: list[str], maintenance: Maintenance | None = None) -> MaintainerHandler:
    maintenance = maintenance or store.engine(2, **SPILLING).maintenance
    return MaintainerHandler(maintenance, instruments(store, lines), tasks_at_once=2)


def event(messages: list[str]) -> dict[str, Any]:
    """Return messages of a queue as Lambda's event."""
    return {"Records": [{"messageId": f"m{i}", "body": body, "attributes": {}} for i, body in enumerate(messages)]}


async def upkeep_of(store: Store, count: int) -> list[str]:
    """Messages of the topic's first partitions."""
    topic_id = (await store.engine().topics.resolve("t")).topic_id
    return [encode_task(MaintenanceTask.of_partition(PartitionId(topic_id, number))) for number in range(count)]


def failed(response: dict[str, Any]) -> list[str]:
    return [failure["itemIdentifier"] for failure in response["batchItemFailures"]]


def said(lines: list[str], message: str) -> dict[str, Any]:
    [line_said] = [line for line in map(json.loads, lines) if line["message"] == message]
    return line_said  # type: ignore[no-any-return]


async def test_what_was_planned_is_sent_done_and_not_planned_again(store: Store) -> None:
    queue, lines = MemoryTaskQueue(), list[str]()
    report = await planner(store, lines, queue).handle({}, context(store))
    assert report == {"finished": True, "planned": {"partition": 3, "sweep": 1}, "sent": 4, "failures": []}
    assert said(lines, "backlog")["partitions"] == 3
    assert not [line for line in lines if "attention" in line]
    assert {decode_task(message).kind for message in queue.messages} == {TaskKind.PARTITION, TaskKind.SWEEP}

    response = await maintainer(store, lines, None).handle(event(queue.messages), context(store))
    assert response == {"batchItemFailures": []}
    done = said(lines, "maintainer")
    assert (done["tasks"], done["left"], done["segments_merged"], done["sweeps"]) == (4, 0, 3, 1)
    again = await planner(store, [], MemoryTaskQueue()).handle({}, context(store))
    assert (again["planned"], again["sent"]) == ({}, 0)


async def test_without_a_queue_one_pass_does_it_all(store: Store) -> None:
    report = await planner(store, [], None).handle({}, context(store))
    assert (report["finished"], report["segments_merged"], report["sweeps"]) == (True, 3, 1)


async def test_a_plan_that_cannot_be_made_is_a_failed_invocation(store: Store) -> None:
    store.catalog.script.update({("query", store.catalog.count("query") + n): Fault.UNAVAILABLE for n in range(9)})
    lines: list[str] = []
    with pytest.raises(KafkaError):
        await planner(store, lines, MemoryTaskQueue()).handle({}, context(store))
    assert said(lines, "invocation")["faults"] == 1
    assert "Traceback" in said(lines, "unexpected exception")["stack"]


async def test_an_invocation_is_metered_as_a_clients_is_and_says_that_it_was_the_first(store: Store) -> None:
    lines: list[str] = []
    handler = planner(store, lines, None)
    await handler.handle({}, context(store))
    first = said(lines, "invocation")
    assert (first["function_requests"], first["cold_start"]) == (1, True)
    billed_s = first["duration_ms"] / 1000
    billed_gb_s = first.get("function_gb_seconds", 0)  # zeros are left out
    assert billed_s <= billed_gb_s < billed_s + 0.001  # 1024 MB, rounded up to a millisecond
    lines.clear()
    await handler.handle({}, context(store))
    assert "cold_start" not in said(lines, "invocation")


async def test_a_plan_that_is_cut_short_sends_what_it_has_found(store: Store) -> None:
    class Slow(Maintenance):
        async def plan(self, plan: MaintenancePlan) -> None:
            plan.tasks.append(MaintenanceTask(TaskKind.SWEEP))
            await asyncio.sleep(60)

    queue = MemoryTaskQueue()
    handler = planner(store, [], queue)
    handler._maintenance.__class__ = Slow
    report = await handler.handle({}, context(store, 2.5))
    assert (report["finished"], report["sent"], len(queue.messages)) == (False, 1, 1)


async def test_only_the_messages_whose_task_failed_come_again(store: Store) -> None:
    messages = await upkeep_of(store, 3)
    messages += ["no task", '{"version":2,"task":"sweep"}']
    store.log.script[("transact", store.log.count("transact") + 1)] = Fault.UNAVAILABLE  # the first lease
    lines: list[str] = []
    response = await maintainer(store, lines).handle(event(messages), context(store))
    assert failed(response) == ["m0", "m3", "m4"]
    assert said(lines, "maintainer")["segments_merged"] == 2
    attention = said(lines, "attention")
    assert (attention["reason"], attention["cluster_id"], len(attention["failures"])) == (
        "maintenance-failures",
        "odradek",
        3,
    )
    [directive] = attention["_aws"]["CloudWatchMetrics"]
    assert directive["Dimensions"] == [["cluster_id"], ["cluster_id", "function"]]


async def test_a_bug_in_one_task_leaves_the_others_to_go_on(store: Store) -> None:
    class Broken(Maintenance):
        async def do(self, task: MaintenanceTask, report: MaintenanceReport, topics: Any = None) -> None:
            if task.partitions == (1,):
                raise ZeroDivisionError("a bug")
            await super().do(task, report, topics)

    maintenance = store.engine(2, **SPILLING).maintenance
    maintenance.__class__ = Broken
    messages = await upkeep_of(store, 3)
    lines: list[str] = []
    response = await maintainer(store, lines, maintenance).handle(event(messages), context(store))
    assert failed(response) == ["m1"]
    assert "ZeroDivisionError" in said(lines, "unexpected exception")["stack"]
    assert said(lines, "maintainer")["segments_merged"] == 2


async def test_what_the_time_does_not_suffice_for_comes_again(store: Store) -> None:
    class Slow(Maintenance):
        async def do(self, task: MaintenanceTask, report: MaintenanceReport, topics: Any = None) -> None:
            await asyncio.sleep(0 if task.partitions == (0,) else 60)

    maintenance = store.engine(2).maintenance
    maintenance.__class__ = Slow
    lines: list[str] = []
    response = await maintainer(store, lines, maintenance).handle(
        event(await upkeep_of(store, 4)), context(store, 2.05)
    )
    assert failed(response) == ["m1", "m2", "m3"], "two under way, one not begun"
    assert "faults" not in said(lines, "invocation")


async def test_a_task_cut_short_leaves_its_partition_to_the_next_worker(store: Store) -> None:
    """The lease of the one that was cut short runs out; whoever comes then finishes its work."""
    stalled = store.engine(2, **SPILLING)

    async def stall(*_: Any) -> None:
        await asyncio.sleep(60)

    stalled.merger.run_all = stall  # type: ignore[method-assign, assignment]
    [message] = await upkeep_of(store, 1)
    response = await maintainer(store, [], stalled.maintenance).handle(event([message]), context(store, 2.05))
    assert failed(response) == ["m0"]
    lines: list[str] = []
    assert failed(await maintainer(store, lines).handle(event([message]), context(store))) == []
    assert said(lines, "maintainer")["partitions_busy"] == 1
    store.clock.advance(61)
    lines.clear()
    assert failed(await maintainer(store, lines).handle(event([message]), context(store))) == []
    assert said(lines, "maintainer")["segments_merged"] == 1


async def test_a_backlog_above_its_limit_calls_for_attention(store: Store) -> None:
    engine, lines = store.engine(2, **SPILLING), list[str]()
    limits = Settings(attention_tail_entries=0)
    handler = MaintenanceHandler(
        engine.maintenance,
        instruments(store, lines),
        rng=engine.rng,
        queue=MemoryTaskQueue(),
        backlogs=engine.backlogs,
        limits=limits,
    )
    await handler.handle({}, context(store))
    attention = said(lines, "attention")
    assert attention["reason"] == "tail-long"
    assert attention["tail_entries_max"] > 0
