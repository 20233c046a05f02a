"""Every call of a share group's life cut short, in every way: nothing is lost, nothing delivered twice at once."""

from __future__ import annotations

import pytest
from odradek.engine.share.window import RecordState
from odradek.errors import ErrorCode
from odradek.testing.faults import Fault

from tests.support.clients.share_member import ACCEPT, REJECT, RELEASE, ShareMember, ack
from tests.support.engine import Store, batch, memory_store, produce, read_all

LOCK_S = 30.0
RECORDS = 6
METHODS = ("get", "get_many", "put", "update", "transact")
FAULTS = [(method, fault) for method in METHODS for fault in Fault if fault is Fault.UNAVAILABLE or method[:3] != "get"]


async def live(store: Store, call: tuple[str, int] | None = None, fault: Fault | None = None) -> bool:
    """A queue is worked off while one call fails; whether that call was made."""
    engine = store.engine(catalog_cache_ms=0)
    await engine.topics.create("work", 1)
    await engine.topics.create("dead", 1)
    for i in range(RECORDS):
        await produce(engine, "work", 0, batch([b"%d" % i]))
    configs = {"share.auto.offset.reset": "earliest", "errors.deadletterqueue.topic.name": "dead"}
    await engine.group_configs.alter("q", set=configs)
    faulty = store.groups
    started = {method: faulty.count(method) for method in METHODS}
    if call is not None and fault is not None:
        faulty.script[call[0], started[call[0]] + call[1]] = fault
    members = [ShareMember(engine, name, "work") for name in ("one", "two")]
    accepted: set[int] = set()
    deliveries: set[tuple[int, int]] = set()
    for turn in range(10):
        if turn == 7:
            await faulty.deliver_late()
        for member in members:
            if (await member.beat()).error is not ErrorCode.NONE:
                continue
            response = await member.request(max_records=2, is_strict=True)
            if response.error is not ErrorCode.NONE or not response.results:
                continue
            [result] = response.results
            for acquired in result.acquired:
                for offset in range(acquired.first_offset, acquired.last_offset + 1):
                    assert offset not in accepted
                    assert (offset, acquired.delivery_count) not in deliveries, "one delivery is one member's"
                    deliveries.add((offset, acquired.delivery_count))
                    acknowledge_type = (
                        REJECT if offset == 3 else RELEASE if offset == 4 and acquired.delivery_count == 1 else ACCEPT
                    )
                    acks = {result.partition: [ack(offset, offset, acknowledge_type)]}
                    answered = await member.request(acknowledgements=acks, fetches=False)
                    codes = [answered.error, *(result.acknowledge_error for result in answered.results)]
                    if acknowledge_type is ACCEPT and not any(codes):
                        accepted.add(offset)
        store.clock.advance(LOCK_S / 2 + 0.5)
    was_made = call is None or faulty.count(call[0]) >= started[call[0]] + call[1]
    faulty.script.clear()
    await faulty.deliver_late()
    for member in members:
        await member.beat()
        await member.request(max_records=2)
    topic = await engine.topics.resolve("work")
    [item] = await engine.share_windows.read("q", [next(iter(members[0].assignment))])
    assert topic is not None
    assert item is not None
    assert item.state.start_offset == RECORDS, item.state
    assert not [run for run in item.state.runs if run.state is not RecordState.DONE]
    assert [record.value for record in await read_all(engine, "dead", 0)] == [b"3"]
    assert accepted <= {0, 1, 2, 4, 5}
    return was_made


async def test_without_a_fault() -> None:
    assert await live(memory_store())


@pytest.mark.parametrize(("method", "fault"), FAULTS)
async def test_one_call_is_cut_short(method: str, fault: Fault) -> None:
    for n in (1, 2, 4, 9, 17):
        if not await live(memory_store(), (method, n), fault):
            break
