"""Members of a share group beside each other: closing and leaving in any order, and an equal share of the records."""

from __future__ import annotations

import pytest
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode
from odradek.model.share import AcknowledgementBatch

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
    [kept] = [each for each in member.assignment if each.topic_id != deleted]
    await engine.topics.delete("b")
    acks = {kept: [ack(0, 0, ACCEPT)]}
    answer = await member.request(epoch, acknowledgements=acks, fetches=False)
    assert [(each.partition, each.acknowledge_error) for each in answer.results] == [(kept, ErrorCode.NONE)]


async def test_a_closing_fetch_names_no_other_partition(store: Store) -> None:
    engine, [member] = await queue(store, 1, "one")
    await member.fetch()
    await engine.topics.delete("b")
    assert (await member.request(-1)).results == ()


async def test_a_partition_named_without_acknowledgements_is_answered(store: Store) -> None:
    _, [member] = await queue(store, 1, "one")
    await member.request(max_records=0)
    acks: dict[object, list[AcknowledgementBatch]] = {each: [] for each in member.assignment}
    answer = await member.request(acknowledgements=acks, fetches=False)
    assert {each.partition: each.acknowledge_error for each in answer.results} == dict.fromkeys(acks, ErrorCode.NONE)


async def test_a_fetch_for_no_records_does_not_wait(store: Store) -> None:
    _, [member] = await queue(store, 1, "one")
    before_s = store.clock.monotonic()
    answer = await member.request(max_records=0, max_wait_ms=10_000)
    assert (answer.results, store.clock.monotonic()) == ((), before_s)


async def test_who_leaves_first_closes_all_the_same(store: Store) -> None:
    _, [one, two] = await queue(store, 3, "one", "two")
    await one.fetch()
    assert await one.leave() is ErrorCode.NONE
    places = {each.partition for each in one.answer.results}
    acks = {each: [ack(0, 0, ACCEPT)] for each in places}
    assert await one.acknowledge(acks, epoch=-1) == dict.fromkeys(places, ErrorCode.NONE)
    assert await session_rows(store) == []
    assert sorted(value for _, _, value in await two.fetch()) == [b"1", b"2"], "the rest came back at once"


async def test_a_session_that_is_never_closed_goes_when_the_next_member_leaves(store: Store) -> None:
    _, [one, two] = await queue(store, 4, "one", "two")
    await one.fetch()
    taken = {each.partition: [ack(0, 0, ACCEPT)] for each in one.answer.results}
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
        return len([each for each in await member.fetch(max_records=500, is_strict=is_strict) if each[2] != b"b"])

    assert [await take(member) for member in (one, two, three)] == [34, 34, 32]
    assert await take(one) == 0, "it holds its share"
    await two.leave()
    await three.leave()
    await one.close()
    one.session_epoch = 0
    assert await take(one) == 100 - 34 - 32, "alone, it may have all locks that are left"
