"""A share group's window goes with the group, the topic or by order: nothing stays, nothing is made late."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode
from odradek.testing.faults import Fault

from tests.support.clients.share_member import ACCEPT, REJECT, RELEASE, ShareMember, ack
from tests.support.engine import Store, batch, memory_store, produce, read_all

CONFIGS = {"share.auto.offset.reset": "earliest", "errors.deadletterqueue.topic.name": "dead"}


@pytest.fixture
def store() -> Store:
    return memory_store()


async def queue(store: Store) -> tuple[Engine, ShareMember]:
    """An engine with a queue of three records that its one member has taken."""
    engine = store.engine(catalog_cache_ms=0)
    for topic in ("work", "dead"):
        await engine.topics.create(topic, 1)
    for i in range(3):
        assert not (await produce(engine, "work", 0, batch([b"%d" % i]))).error
    await engine.group_configs.alter("q", set=CONFIGS)
    member = ShareMember(engine, "one", "work")
    await member.beat()
    assert len(await member.fetch()) == 3
    return engine, member


async def rows(store: Store) -> list[str]:
    """Windows of the group, and what numbers dead letters."""
    windows = await store.groups.query("g#q", sk_from="s#", sk_to="s$")
    return [row.key.sk for row in (*windows, *await store.catalog.query("batches"))]


async def end(engine: Engine, ending: str) -> None:
    match ending:
        case "the group is deleted":
            assert await engine.groups.delete(["q"]) == [("q", ErrorCode.NONE)]
        case "the topic is deleted":
            await engine.topics.delete("work")
            assert not (await engine.maintenance.run()).failures
        case "its offsets are deleted":
            [result] = await engine.share_offsets.delete("q", ["work"])
            assert result.error is ErrorCode.NONE


ENDS = ["the group is deleted", "the topic is deleted", "its offsets are deleted"]


@pytest.mark.parametrize("ending", ENDS)
async def test_nothing_of_a_window_stays(store: Store, ending: str) -> None:
    engine, member = await queue(store)
    await member.acknowledge({member.of(0): [ack(0, 0, REJECT)]})
    assert len(await rows(store)) == 2
    await member.leave()
    await end(engine, ending)
    assert await rows(store) == []
    assert [letter.value for letter in await read_all(engine, "dead", 0)] == [b"0"]


@pytest.mark.parametrize("ending", ENDS)
async def test_a_dead_letter_that_arrives_after_the_end_is_not_written(store: Store, ending: str) -> None:
    engine, member = await queue(store)
    across = store.tables.across
    first = across.count("transact") + 1
    across.script |= {("transact", first + i): Fault.LATE if i == 0 else Fault.UNAVAILABLE for i in range(50)}
    await member.acknowledge({member.of(0): [ack(0, 0, REJECT)]})
    across.script.clear()
    await member.leave()
    await end(engine, ending)
    assert await across.deliver_late() == 0
    assert await rows(store) == []
    assert await read_all(engine, "dead", 0) == []


async def test_a_late_write_of_a_deleted_group_changes_nothing_of_the_group_that_took_its_name(store: Store) -> None:
    """Windows are counted from one, so both have a write of that number; an incarnation tells them apart."""
    engine, member = await queue(store)
    puts = store.groups.count("put")
    store.groups.script = {("put", puts + 1 + n): Fault.LATE if n == 0 else Fault.UNAVAILABLE for n in range(50)}
    await member.request(acknowledgements={member.of(0): [ack(0, 2, ACCEPT)]}, fetches=False)
    store.groups.script = {}
    await member.leave()
    await end(engine, "the group is deleted")
    successor = ShareMember(engine, "two", "work")
    await successor.beat()
    assert len(await successor.fetch()) == 3
    await store.groups.deliver_late()
    assert await successor.acknowledge({successor.of(0): [ack(0, 2, RELEASE)]}) == {successor.of(0): ErrorCode.NONE}
    assert [offset for offset, _, _ in await successor.fetch()] == [0, 1, 2]


async def test_a_first_fetch_that_meets_the_topics_deletion_makes_no_window(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, _ = await queue(store)
    late = ShareMember(engine, "late", "work", group_id="other")
    await late.beat()
    transact = store.tables.across._port.transact

    async def after_the_deletion(operations: Any) -> None:
        monkeypatch.undo()
        await engine.topics.delete("work")
        assert not (await engine.maintenance.run()).failures
        await transact(operations)

    monkeypatch.setattr(store.tables.across._port, "transact", after_the_deletion)
    response = await late.request()
    assert [result.error for result in response.results] == [ErrorCode.UNKNOWN_TOPIC_ID]
    assert await store.groups.query("g#other", sk_from="s#", sk_to="s$") == []


@pytest.mark.parametrize("fault", Fault)
async def test_a_deletion_that_is_cut_short_is_made_again(store: Store, fault: Fault) -> None:
    engine, member = await queue(store)
    await member.acknowledge({member.of(0): [ack(0, 0, REJECT)]})
    await member.leave()
    across = store.tables.across
    across.script["transact", across.count("transact") + 1] = fault
    await end(engine, ENDS[0])
    await across.deliver_late()
    assert await rows(store) == []
    assert await store.groups.query("g#q") == []
