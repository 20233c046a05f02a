"""Members of a share group beside each other: closing and leaving in any order, and an equal share of the records."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from odradek.engine.engine import Engine
from odradek.engine.share.items import ShareItem
from odradek.engine.share.window import RecordState
from odradek.errors import ErrorCode
from odradek.model.share import AcknowledgementBatch
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Put

from tests.support.clients.share_member import ACCEPT, ShareMember, ack
from tests.support.engine import Store, batch, memory_store, produce


@pytest.fixture
def store() -> Store:
    return memory_store()


async def queue(store: Store, records: int, *names: str, **configs: str) -> tuple[Engine, list[ShareMember]]:
    """Topics a and b; `a` has one batch of so many records. Members that have joined, the first with a session."""
    engine = store.engine(catalog_cache_ms=0)
    for topic in ("a", "b"):
        await engine.topics.create(topic, 1)
    assert not (await produce(engine, "a", 0, batch([b"%d" % i for i in range(records)]))).error
    assert not (await produce(engine, "b", 0, batch([b"b"]))).error
    await engine.group_configs.alter("q", set={"share.auto.offset.reset": "earliest", **configs})
    members = [ShareMember(engine, name, "a", "b") for name in names]
    for member in members:
        await member.beat()
    return engine, members


async def session_rows(store: Store) -> list[str]:
    return [row.key.sk for row in await store.groups.query("g#q", sk_from="t#", sk_to="t$")]


@pytest.mark.parametrize("epoch", [1, -1])
async def test_an_acknowledgement_is_answered_about_what_it_names(store: Store, epoch: int) -> None:
    engine, [member] = await queue(store, 1, "one")
    assert len(await member.fetch()) == 2
    deleted = (await engine.topics.resolve("b")).topic_id
    [kept] = [partition for partition in member.assignment if partition.topic_id != deleted]
    await engine.topics.delete("b")
    acks = {kept: [ack(0, 0, ACCEPT)]}
    response = await member.request(epoch, acknowledgements=acks, fetches=False)
    assert [(result.partition, result.acknowledge_error) for result in response.results] == [(kept, ErrorCode.NONE)]


async def test_a_closing_fetch_names_no_other_partition(store: Store) -> None:
    engine, [member] = await queue(store, 1, "one")
    await member.fetch()
    await engine.topics.delete("b")
    assert (await member.request(-1)).results == ()


async def test_a_partition_named_without_acknowledgements_is_answered(store: Store) -> None:
    _, [member] = await queue(store, 1, "one")
    await member.request(max_records=0)
    acks: dict[object, list[AcknowledgementBatch]] = {partition: [] for partition in member.assignment}
    response = await member.request(acknowledgements=acks, fetches=False)
    assert {result.partition: result.acknowledge_error for result in response.results} == dict.fromkeys(
        acks, ErrorCode.NONE
    )


async def test_a_fetch_for_no_records_does_not_wait(store: Store) -> None:
    _, [member] = await queue(store, 1, "one")
    before_s = store.clock.monotonic()
    response = await member.request(max_records=0, max_wait_ms=10_000)
    assert (response.results, store.clock.monotonic()) == ((), before_s)


async def test_who_leaves_first_closes_all_the_same(store: Store) -> None:
    _, [one, two] = await queue(store, 3, "one", "two")
    await one.fetch()
    assert await one.leave() is ErrorCode.NONE
    places = {result.partition for result in one.answer.results}
    acks = {partition: [ack(0, 0, ACCEPT)] for partition in places}
    assert await one.acknowledge(acks, epoch=-1) == dict.fromkeys(places, ErrorCode.NONE)
    assert await session_rows(store) == []
    assert sorted(value for _, _, value in await two.fetch()) == [b"1", b"2"], "the rest came back at once"


async def test_a_session_that_is_never_closed_goes_when_the_next_member_leaves(store: Store) -> None:
    _, [one, two] = await queue(store, 4, "one", "two")
    await one.fetch()
    taken = {result.partition: [ack(0, 0, ACCEPT)] for result in one.answer.results}
    await one.leave()
    assert await session_rows(store) == ["t#one"]
    await two.fetch()
    await two.leave()
    assert await session_rows(store) == ["t#two"]
    assert set((await one.acknowledge(taken, epoch=-1)).values()) == {ErrorCode.NONE}, "the records were its own"
    assert (await one.request(-1)).error is ErrorCode.SHARE_SESSION_NOT_FOUND


@pytest.mark.parametrize("is_strict", [True, False])
async def test_a_member_holds_its_equal_share_at_most(store: Store, is_strict: bool) -> None:
    limit = {"share.partition.max.record.locks": "100"}
    _, [one, two, three] = await queue(store, 300, "one", "two", "three", **limit)

    async def take(member: ShareMember) -> int:
        return len(
            [delivery for delivery in await member.fetch(max_records=500, is_strict=is_strict) if delivery[2] != b"b"]
        )

    assert [await take(member) for member in (one, two, three)] == [34, 34, 32]
    assert await take(one) == 0, "it holds its share"
    await two.leave()
    await three.leave()
    await one.close()
    one.session_epoch = 0
    assert await take(one) == 100 - 34 - 32, "alone, it may have all locks that are left"


async def test_a_window_that_others_change_all_the_time_is_changed_at_the_second_look(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process writes during every pause: what was read before the pause is stale after it."""
    engine, [one] = await queue(store, 10, "one")
    partition = await _place_of_a(engine, one)
    await one.fetch(max_records=2, is_strict=True)
    others = store.engine(seed=1, catalog_cache_ms=0).share_windows
    put, sleep = store.groups._port.put, store.clock.sleep
    own_puts, is_others = 0, False

    async def change() -> None:
        nonlocal is_others
        is_others = True
        [item] = await others.read("q", [partition])
        assert item is not None
        await others.change("q", partition, item, lambda state: (replace(state, lot_number=state.lot_number + 1), None))
        is_others = False

    async def counted(write: Put) -> None:
        nonlocal own_puts
        if not is_others:
            own_puts += 1
            if own_puts <= 2:
                await change()
        await put(write)

    async def sleeping(seconds: float) -> None:
        await change()
        await sleep(seconds)

    monkeypatch.setattr(store.groups._port, "put", counted)
    monkeypatch.setattr(store.clock, "sleep", sleeping)
    assert await one.acknowledge({partition: [ack(0, 1, ACCEPT)]}) == {partition: ErrorCode.NONE}
    assert own_puts == 3


async def test_changes_of_one_process_that_wait_for_each_other_are_one_write(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"m{i}" for i in range(16)]
    engine, members = await queue(store, 160, *names)
    partition = await _place_of_a(engine, members[0])
    for i, member in enumerate(members):
        taken = await member.fetch_records(max_records=10, is_strict=True, partitions=frozenset({partition}))
        assert [record.offset for _, record, _ in taken] == list(range(10 * i, 10 * i + 10))
    put = store.groups._port.put

    async def slow(write: Put) -> None:
        await asyncio.sleep(0.01)
        await put(write)

    monkeypatch.setattr(store.groups._port, "put", slow)
    before = store.groups.count("put")
    chosen = [{partition: [ack(10 * i, 10 * i + 9, ACCEPT)]} for i in range(16)]
    chosen[3] = {partition: [ack(0, 9, ACCEPT)]}  # another member's
    codes = await asyncio.gather(*(member.acknowledge(acks) for member, acks in zip(members, chosen, strict=True)))
    refused = [i for i, code in enumerate(codes) if code[partition] is not ErrorCode.NONE]
    assert refused == [3]
    assert codes[3][partition] is ErrorCode.INVALID_RECORD_STATE
    assert store.groups.count("put") - before <= 2
    [item] = await engine.share_windows.read("q", [partition])
    assert item is not None
    assert [(run.start, run.end) for run in item.state.runs if run.state is RecordState.ACQUIRED] == [(30, 40)]


async def test_a_caller_that_is_cancelled_leaves_the_others_their_turn(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, [one] = await queue(store, 2, "one")
    [item] = await _window_of(engine, one)
    put = store.groups._port.put
    first = asyncio.Event()

    async def hanging(write: Put) -> None:
        monkeypatch.setattr(store.groups._port, "put", put)
        first.set()
        await asyncio.sleep(60)

    monkeypatch.setattr(store.groups._port, "put", hanging)
    partition = next(iter(sorted(one.assignment)))

    async def change(to: int) -> int:
        _, answer = await engine.share_windows.change(
            "q", partition, item, lambda state: (replace(state, start_offset=to), to)
        )
        return answer

    hung = asyncio.ensure_future(change(1))
    await first.wait()
    waiting = asyncio.ensure_future(change(2))
    await asyncio.sleep(0)
    hung.cancel()
    assert await asyncio.wait_for(waiting, 5) == 2


async def _place_of_a(engine: Engine, member: ShareMember) -> PartitionId:
    topic = await engine.topics.resolve("a")
    [partition] = [candidate for candidate in member.assignment if candidate.topic_id == topic.topic_id]
    return partition


async def _window_of(engine: Engine, member: ShareMember) -> list[ShareItem]:
    partition = next(iter(sorted(member.assignment)))
    await member.fetch(partitions=frozenset({partition}))
    return [item for item in await engine.share_windows.read("q", [partition]) if item is not None]
