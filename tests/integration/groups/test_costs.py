"""How many requests a group costs, and how large its items become."""

from __future__ import annotations

from odradek.errors import ErrorCode
from odradek.format.item_keys import group_pk
from odradek.format.item_size import item_size
from odradek.limits import TABLE_ITEM_BYTES_MAX, TABLE_WRITE_UNIT_BYTES
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition

from tests.support.clients.group_member import World, settle


async def test_quiet_heartbeat_is_one_query_and_one_write() -> None:
    world = World()
    await world.create("t", 12)
    members = [world.member(name, "t") for name in "abc"]
    await settle(members)
    await world.clock.sleep(0.1)
    world.table.calls.clear()
    world.catalog.calls.clear()
    for _ in range(4):
        for member in members:
            await member.beat()
    assert world.table.calls == ["query", "put"] * 12
    assert world.catalog.calls == [], "the catalog's copy is young enough"
    await world.clock.sleep(5)
    await members[0].beat()
    assert world.catalog.calls == ["get"]


async def test_quiet_member_fits_one_write_unit() -> None:
    world = World()
    await world.create("flights", 96)
    members = [world.member(f"member-with-a-uuid-of-36-characters-{n:02}", "flights") for n in range(24)]
    await settle(members)
    rows = await world.memory.query(group_pk("g"), sk_from="m#", sk_to="n")
    assert len(rows) == 24
    assert max(item_size(row.key.pk, row.key.sk, row.item) for row in rows) < TABLE_WRITE_UNIT_BYTES


async def test_24_members_over_96_partitions_settle_in_few_heartbeats() -> None:
    world = World()
    await world.create("t", 96)
    members = [world.member(f"m{n:02}", "t") for n in range(24)]
    for member in members:
        assert await member.beat() is ErrorCode.NONE
    world.table.calls.clear()
    rounds = await settle(members)
    assert rounds <= 4
    assert {len(member.owned) for member in members} == {4}
    assert len(world.table.calls) <= 24 * (rounds + 1) * 3
    before = [member.owned for member in members]
    late = world.member("zz", "t")
    assert await settle([late, *members]) <= 4
    moved = sum(len(old - member.owned) for old, member in zip(before, members, strict=True))
    assert moved == len(late.owned) == 3


async def test_one_member_takes_and_gives_back_more_than_a_transaction_holds() -> None:
    world = World()
    await world.create("t", 700)
    a, b = world.member("a", "t"), world.member("b", "t")
    await a.beat()
    assert len(a.owned) == 700
    await settle([a, b])
    assert len(a.owned) == len(b.owned) == 350
    await b.leave()
    await settle([a])
    assert len(a.owned) == 700
    for row in await world.memory.query(group_pk("g")):
        assert item_size(row.key.pk, row.key.sk, row.item) < TABLE_ITEM_BYTES_MAX / 10


async def test_commit_is_one_update_for_partitions_that_share_a_head_and_no_read() -> None:
    world = World()
    await world.create("t", 4)
    member = world.member("a", "t")
    await member.beat()
    world.table.calls.clear()
    offsets = {TopicPartition("t", number): OffsetAndMetadata(number) for number in range(4)}
    await world.offsets.commit("g", offsets, member_id="a", member_epoch=member.epoch)
    assert world.table.calls == ["update"]
