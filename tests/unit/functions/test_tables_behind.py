"""An Iceberg table that cannot be kept: the log goes on, an alarm rings, doctor says why, and the table catches up."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from odradek.adapters.memory import MemoryTaskQueue
from odradek.adapters.memory.table_catalog import MemoryTableOf
from odradek.errors import StoreUnavailable
from odradek.extras import MissingExtra
from odradek.functions.maintainer import MaintainerHandler
from odradek.functions.maintenance import MaintenanceHandler
from odradek.model.kinds import kind_of
from odradek.operations.health.checks import topic_findings
from odradek.operations.storage import StoreView
from odradek.testing.faults import Fault

from tests.unit.engine.iceberg.test_follower import NAME, Lake, made
from tests.unit.functions.test_maintenance import context, event, instruments


async def nobody_answers(lake: Lake) -> None:
    lake.catalog.script = {("load", n): Fault.UNAVAILABLE for n in range(1, 99)}


async def no_right(lake: Lake) -> None:
    async def load(name: object) -> None:
        raise StoreUnavailable("the Iceberg table odradek.t cannot be loaded: the catalog does not allow it: 403")

    lake.memory.load = load  # type: ignore[assignment,method-assign]


async def no_library(lake: Lake) -> None:
    async def load(name: object) -> None:
        raise MissingExtra("iceberg")

    lake.memory.load = load  # type: ignore[assignment,method-assign]


async def another_topics_table(lake: Lake) -> None:
    await lake.memory.create(NAME, UUID(int=5), ())


async def somebody_elses_table(lake: Lake) -> None:
    lake.memory.tables[NAME] = MemoryTableOf(None, {})


async def another_type(lake: Lake) -> None:
    topic = await lake.engine().topics.resolve("t")
    await lake.memory.create(NAME, topic.topic_id, [("n", kind_of("string"))])


def mend(lake: Lake) -> None:
    lake.catalog.script = {}
    lake.memory.tables.clear()
    vars(lake.memory).pop("load", None)


async def maintained(lake: Lake) -> tuple[list[str], set[str]]:
    """Plans and tasks until nothing is left but what fails; the messages that failed last, the reasons of the alarm."""
    lines: list[str] = []
    failed: list[str] = []
    for seed in range(3):
        lake.store.clock.advance(61)
        engine, queue = lake.engine(seed), MemoryTaskQueue()
        planner = MaintenanceHandler(engine.maintenance, instruments(lake.store, lines), rng=engine.rng, queue=queue)
        await planner.handle({}, context(lake.store))
        worker = MaintainerHandler(engine.maintenance, instruments(lake.store, lines), tasks_at_once=2)
        response = await worker.handle(event(queue.messages), context(lake.store))
        failed = [failure["itemIdentifier"] for failure in response["batchItemFailures"]]
    attention_lines = [line for line in map(json.loads, lines) if line["message"] == "attention"]
    return failed, {line["reason"] for line in attention_lines}


async def doctor(lake: Lake) -> list[Any]:
    tables = lake.store.tables
    store = SimpleNamespace(
        log=tables.log, groups=tables.groups, catalog=tables.catalog, objects=lake.store.objects, clock=lake.store.clock
    )
    return topic_findings(await StoreView(store).tables(), lake.store.clock.now_ms())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("happens", "why"),
    [
        (nobody_answers, "StoreUnavailable"),
        (no_right, "the catalog does not allow it: 403"),
        (no_library, "pip install 'odradek[iceberg]'"),
        (another_topics_table, f"the catalog has a table odradek.t already, which is of the topic {UUID(int=5)}"),
        (somebody_elses_table, "the catalog has a table odradek.t already, which was not made by Odradek"),
        (another_type, "the column n is string and cannot become bigint"),
    ],
)
async def test_a_table_that_cannot_be_kept_is_told_and_catches_up(happens: Callable[..., Any], why: str) -> None:
    lake = await made()
    await happens(lake)
    failed, reasons = await maintained(lake)
    assert failed, "the task comes again"
    assert "table-behind" in reasons
    [finding] = await doctor(lake)
    assert (finding.outcome, finding.check) == ("warn", "iceberg")
    assert finding.text.startswith("t: the Iceberg table odradek.t is behind since 20")
    assert why in finding.text
    assert await lake.columnar(), "the log goes on"

    mend(lake)
    failed, reasons = await maintained(lake)
    assert failed == []
    assert reasons == set()
    assert lake.files() == {*await lake.columnar(0), *await lake.columnar(1)}
    [finding] = await doctor(lake)
    assert (finding.outcome, finding.text) == ("ok", "1 tables have all closed segments")
