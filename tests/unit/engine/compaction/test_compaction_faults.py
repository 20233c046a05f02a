"""Compaction cut short, lied to and overtaken at every call that it makes of its stores."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from odradek.engine.compaction.state import CompactionState
from odradek.engine.maintenance.maintenance import MaintenanceReport
from odradek.engine.partition.maintenance_lease import lease_key
from odradek.model.record import Record
from odradek.testing.faults import Fault

from tests.support.examples import some
from tests.support.stores.compaction import ALWAYS, PARTITION, Log, last_of_each_key

SETTINGS: dict[str, Any] = {"compaction_map_entries_max": 3, "segment_bytes_max": 300, "compaction_read_bytes": 300}


async def make_log() -> Log:
    """Five keys in five segments: two passes of the map above, several groups each."""
    log = Log(dict(ALWAYS))
    for i in range(5):
        entries = [(b"k%d" % ((i * 3 + j) % 4), b"%d" % i * 40) for j in range(3)]
        await log.add_segment(log.batch(entries), log.batch([(b"x", None if i == 3 else b"%d" % i)], at=4 * i + 3))
    return log


async def check(log: Log, before: list[Record]) -> None:
    """At any moment: each key's last record is there, and whatever is there is what it was."""
    now = await log.records()
    originals = {record.offset: record for record in before}
    assert all(originals[record.offset] == record for record in now)
    assert [record.offset for record in now] == sorted({record.offset for record in now})
    assert last_of_each_key(now) == last_of_each_key(before)


async def check_done(log: Log, before: list[Record]) -> None:
    await check(log, before)
    assert len(await log.records()) == len(last_of_each_key(before)), "nothing is left that should have gone"


async def is_clean(log: Log) -> bool:
    item = await log.stored.get(lease_key(PARTITION))
    return item is None or item["c"] is True


def calls_of(log: Log) -> list[tuple[str, str, int]]:
    """Every call that a run made: port, method, its number."""
    return [
        (port, name, number)
        for port in ("table", "objects")
        for name in sorted(set(getattr(log, port).calls))
        for number in range(1, getattr(log, port).count(name) + 1)
    ]


@pytest.mark.parametrize("fault", some(Fault, every=2))
async def test_any_call_may_fail_once(fault: Fault) -> None:
    log = await make_log()
    await log.compact(**SETTINGS)
    calls = calls_of(log)
    assert len(calls) > 30
    writes = {"put", "update", "transact", "delete"}
    for port, name, number in calls:
        # Reads change nothing, so they are unavailable or they are not.
        if name not in writes and fault is not Fault.UNAVAILABLE:
            continue
        log = await make_log()
        before = await log.records()
        getattr(log, port).script[(name, number)] = fault
        await log.compact(**SETTINGS)
        where = (port, name, number, log.objects.calls)
        await check(log, before)
        orphans = await log.audit()
        assert not orphans or not await is_clean(log), where
        log.table.script, log.objects.script = {}, {}
        late_first = number % 2 == 0
        if late_first:
            await log.table.deliver_late()
            await log.objects.deliver_late()
        log.clock.advance(120)
        report = await log.compact(**SETTINGS)
        assert report.failures == [], where
        await log.table.deliver_late()
        await log.objects.deliver_late()
        await check_done(log, before)
        await log.audit()


@pytest.mark.parametrize("method", ["transact", "put", "delete"])
async def test_unknown_to_the_end_changes_nothing_that_a_reader_sees(method: str) -> None:
    for first in range(1, 12):
        log = await make_log()
        before = await log.records()
        script = {(method, first + i): Fault.LOST_ANSWER if i % 2 else Fault.LATE for i in range(12)}
        log.table.script, log.objects.script = dict(script), dict(script)
        await log.compact(**SETTINGS)
        await check(log, before)
        log.table.script, log.objects.script = {}, {}
        await log.table.deliver_late()
        await log.objects.deliver_late()
        await check(log, before)
        log.clock.advance(120)
        assert (await log.compact(**SETTINGS)).failures == []
        await check_done(log, before)


class Killed(BaseException):
    """The process is gone."""


class Watched:
    """Both ports of a run, their calls counted together: `interrupt` is asked before and after each."""

    def __init__(self, log: Log, interrupt: Callable[[int, str], Awaitable[None]]) -> None:
        self.calls = 0
        self._interrupt = interrupt
        self.table, self.objects = self._port(log.stored), self._port(log.kept)

    def _port(self, port: Any) -> Any:
        watched = self

        class Port:
            def __getattr__(self, name: str) -> Any:
                async def call(*args: Any, **kwargs: Any) -> Any:
                    watched.calls += 1
                    number = watched.calls
                    await watched._interrupt(number, "before")
                    result = await getattr(port, name)(*args, **kwargs)
                    await watched._interrupt(number, "after")
                    return result

                return call

        return Port()


async def run(log: Log, watched: Watched, seed: int) -> MaintenanceReport:
    report = MaintenanceReport()
    maintenance = log.maintenance(seed, table=watched.table, objects=watched.objects, **SETTINGS)
    await maintenance.run_partition(log.topic, 0, report)
    return report


async def count_calls() -> int:
    async def go_on(number: int, when: str) -> None:
        return None

    log = await make_log()
    watched = Watched(log, go_on)
    await run(log, watched, 1)
    return watched.calls


@pytest.mark.parametrize("when", some(["after", "before"]))
async def test_killed_at_any_call_another_goes_on(when: str) -> None:
    for at in range(1, await count_calls() + 1):

        async def kill(number: int, now: str, at: int = at) -> None:
            if (number, now) == (at, when):
                raise Killed

        log = await make_log()
        before = await log.records()
        with pytest.raises(Killed):
            await run(log, Watched(log, kill), 1)
        await check(log, before)
        log.clock.advance(120)
        report = await log.compact(**SETTINGS)
        assert report.failures == []
        await check_done(log, before)
        await log.audit()


@pytest.mark.parametrize("when", some(["before", "after"]))
async def test_stalled_at_any_call_it_is_fenced_and_changes_nothing(when: str) -> None:
    for at in range(4, await count_calls() + 1):  # the first three take the lease
        stalled, wake = asyncio.Event(), asyncio.Event()

        async def stall(
            number: int, now: str, at: int = at, stalled: asyncio.Event = stalled, wake: asyncio.Event = wake
        ) -> None:
            if (number, now) == (at, when):
                stalled.set()
                await wake.wait()

        log = await make_log()
        before = await log.records()
        slow = asyncio.create_task(run(log, Watched(log, stall), 1))
        await stalled.wait()
        log.clock.advance(3_600)
        log.runs = 1
        assert (await log.compact(**SETTINGS)).failures == []
        await check_done(log, before)
        rows, state = await log.rows(), await log.state()
        wake.set()
        await slow
        assert await log.rows() == rows, at
        assert await log.state() == state, at
        await check_done(log, before)
        await log.audit()


async def test_a_long_run_keeps_its_lease() -> None:
    log = await make_log()

    async def take_time(number: int, when: str) -> None:
        log.clock.advance(0.011)

    report = MaintenanceReport()
    watched = Watched(log, take_time)
    maintenance = log.maintenance(1, table=watched.table, objects=watched.objects, maintenance_lease_ms=80, **SETTINGS)
    task = asyncio.create_task(maintenance.run_partition(log.topic, 0, report))
    await task
    assert report.failures == []
    assert report.done["compaction_passes"] >= 2
    item = await log.stored.get(lease_key(PARTITION))
    assert item["e"] == 1


async def make_long_log() -> Log:
    """60 segments of one record; each second one of the first thirty has a later record of its key."""
    log = Log()
    for i in range(60):
        await log.add((b"once %d" % i if i % 2 else b"twice %d" % (i // 2 % 15), b"v" * 100))
    return log


async def cut_short(log: Log) -> CompactionState:
    """Let the second group of the first pass fail."""
    log.objects.script = {("put", number): Fault.UNAVAILABLE for number in range(3, 9)}
    assert (await log.compact(segment_bytes_max=700)).failures
    log.objects.script = {}
    state = await log.state()
    assert state is not None
    assert state.is_under_way
    assert 0 < state.position < 15
    return state


async def test_a_pass_that_was_cut_short_goes_on_where_it_was() -> None:
    log = await make_long_log()
    before = await log.records()
    state = await cut_short(log)
    log.objects.calls[:] = []
    report = await log.compact(segment_bytes_max=700)
    assert report.done["compaction_passes"] == 1
    # The dirty part once for the map, then only what lies above the position.
    above = 60 - state.position
    assert log.objects.count("get_range") == 1 + above + above
    await check_done(log, before)
    await log.audit()


async def test_a_pass_that_was_begun_with_a_larger_map_is_ended_with_a_smaller_one() -> None:
    log = await make_long_log()
    before = await log.records()
    await cut_short(log)
    assert (await log.compact(segment_bytes_max=700, compaction_map_entries_max=2)).failures == []
    await check_done(log, before)
    await log.audit()


async def test_an_upload_that_may_come_late_leaves_the_partition_unclean() -> None:
    log = await make_log()
    log.objects.script[("put", 1)] = Fault.LATE
    assert (await log.compact(**SETTINGS)).failures == []
    assert await log.audit() == []
    # The object was uploaded again, replaced and deleted; then the first upload arrives.
    assert not await is_clean(log)
    await log.objects.deliver_late()
    assert await log.audit() != []
