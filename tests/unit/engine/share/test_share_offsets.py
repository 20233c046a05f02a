"""Administration of a share group's offsets while the store throttles: one refused call is tried again, not told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode
from odradek.model.share import ShareOffset
from odradek.model.topic_partition import TopicPartition
from odradek.testing.faults import Fault

from tests.support.clients.share_member import ACCEPT, ShareMember, ack
from tests.support.engine import Store, batch, memory_store, produce

PLACE = TopicPartition("work", 0)
Call = Callable[[Engine], Awaitable[list[ShareOffset]]]

CALLS: dict[str, tuple[Call, int]] = {
    "describe": (lambda engine: engine.share_offsets.describe("q", [PLACE]), 1),
    "describe all": (lambda engine: engine.share_offsets.describe("q", None), 1),
    "alter": (lambda engine: engine.share_offsets.alter("q", {PLACE: 2}), 2),
    "delete": (lambda engine: engine.share_offsets.delete("q", ["work"]), -1),
}


async def prepared() -> tuple[Store, Engine]:
    """A queue of three records of which one is accepted, and whose member has left."""
    store = memory_store()
    engine = store.engine()
    await engine.topics.create("work", 1)
    for i in range(3):
        assert not (await produce(engine, "work", 0, batch([b"%d" % i]))).error
    await engine.group_configs.alter("q", set={"share.auto.offset.reset": "earliest"})
    member = ShareMember(engine, "one", "work")
    await member.beat()
    assert len(await member.fetch()) == 3
    assert await member.acknowledge({member.of(0): [ack(0, 0, ACCEPT)]}) == {member.of(0): ErrorCode.NONE}
    await member.leave()
    return store, engine


@pytest.mark.parametrize("name", CALLS)
async def test_a_call_that_is_throttled_is_made_again(name: str) -> None:
    """Each call to the groups table fails in turn, and so does each transaction."""
    call, start_offset = CALLS[name]
    store, engine = await prepared()
    made = len(store.groups.calls), len(store.tables.across.calls)
    await call(engine)
    script = [("groups", method) for method in store.groups.calls[made[0] :]]
    script += [("across", method) for method in store.tables.across.calls[made[1] :]]
    assert script
    for i, (where, method) in enumerate(script):
        store, engine = await prepared()
        faulty = store.groups if where == "groups" else store.tables.across
        nth = sum(1 for call_made in script[: i + 1] if call_made == (where, method))
        faulty.script[method, faulty.count(method) + nth] = Fault.UNAVAILABLE
        [result] = await call(engine)
        assert (result.error, result.start_offset) == (ErrorCode.NONE, start_offset), (where, method, nth)
        if name.startswith("describe"):
            assert result.lag == 2
