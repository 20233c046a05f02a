"""Classic groups over a table: rounds, sessions, fences, lost answers; the consumer protocol beside it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from odradek.engine.classic.groups import ClassicGroups
from odradek.engine.engine import Engine
from odradek.engine.offsets.offsets import GroupOffsets
from odradek.errors import ErrorCode
from odradek.model.classic_group import (
    ClassicIdentity,
    ClassicJoin,
    ClassicJoinResult,
    ClassicLeave,
    ClassicSync,
)
from odradek.model.group import GroupHeartbeat
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition
from odradek.testing.faults import Fault
from odradek.testing.manual_clock import ManualClock
from odradek.testing.seeded_rng import SeededRng

from tests.support.clients.group_member import Scheduler, UnreliableTable
from tests.support.engine import Store, memory_store

SEAT = TopicPartition("t", 0)


@pytest.fixture
async def store() -> Store:
    made = memory_store()
    await made.engine().topics.create("t", 4)
    return made


def join_request(member_id: str = "", **fields: Any) -> ClassicJoin:
    defaults: dict[str, Any] = {"session_ms": 10_000, "rebalance_ms": 30_000, "requires_known_member_id": False}
    return ClassicJoin("g", member_id, "consumer", (("range", b"topics"),), **{**defaults, **fields})


async def join_together(*engines: Engine, **fields: Any) -> list[ClassicJoinResult]:
    results = await asyncio.gather(*(engine.classic_groups.join(join_request(**fields)) for engine in engines))
    assert [result.error for result in results] == [ErrorCode.NONE] * len(engines)
    return list(results)


def identity(result: ClassicJoinResult, **fields: Any) -> ClassicIdentity:
    return ClassicIdentity("g", result.member_id, result.generation, **fields)


async def sync_all(engine: Engine, joined: list[ClassicJoinResult]) -> dict[str, bytes]:
    """Everybody syncs, the leader with an assignment; what each was given."""
    plan = {result.member_id: b"for %d" % i for i, result in enumerate(joined)}

    async def sync(result: ClassicJoinResult) -> tuple[str, bytes]:
        is_leader = result.leader == result.member_id
        response = await engine.classic_groups.sync(
            ClassicSync(identity(result), assignments=plan if is_leader else {})
        )
        assert response.error is ErrorCode.NONE
        return result.member_id, response.assignment

    assignments = dict(await asyncio.gather(*(sync(result) for result in joined)))
    assert assignments == plan
    return assignments


async def commit(engine: Engine, result: ClassicJoinResult, offset: int) -> ErrorCode:
    [response] = await engine.offsets.commit(
        "g", {SEAT: OffsetAndMetadata(offset)}, member_id=result.member_id, member_epoch=result.generation
    )
    return response.error


async def committed(engine: Engine) -> int | None:
    [result] = await engine.offsets.fetch("g", [SEAT])
    return None if result.committed is None else result.committed.offset


async def test_members_at_different_gateways_meet_in_one_round(store: Store) -> None:
    engines = [store.engine(seed) for seed in range(3)]
    joined = await join_together(*engines)
    assert {result.generation for result in joined} == {1}
    [leader] = [result for result in joined if result.leader == result.member_id]
    assert {member.member_id for member in leader.members} == {result.member_id for result in joined}
    await sync_all(engines[1], joined)
    for result in joined:
        assert await engines[2].classic_groups.heartbeat(identity(result)) is ErrorCode.NONE


async def test_a_member_id_is_required_first_where_the_client_knows_how(store: Store) -> None:
    groups = store.engine().classic_groups
    refused = await groups.join(join_request(requires_known_member_id=True, client_id="app"))
    assert refused.error is ErrorCode.MEMBER_ID_REQUIRED
    assert refused.member_id.startswith("app-")
    joined = await groups.join(join_request(refused.member_id, requires_known_member_id=True))
    assert (joined.error, joined.member_id) == (ErrorCode.NONE, refused.member_id)
    invented = await groups.join(join_request("mine"))
    assert invented.error is ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_silent_member_is_removed_after_its_session_and_its_commits_are_refused(store: Store) -> None:
    engine = store.engine()
    joined = await join_together(engine, store.engine(1))
    await sync_all(engine, joined)
    living, silent = joined
    assert await commit(engine, silent, 5) is ErrorCode.NONE
    code, passed_ms = ErrorCode.NONE, 0
    while code is ErrorCode.NONE:
        store.clock.advance(1)
        passed_ms += 1_000
        code = await engine.classic_groups.heartbeat(identity(living))
    assert code is ErrorCode.REBALANCE_IN_PROGRESS
    assert 10_000 <= passed_ms <= 12_000
    assert await commit(engine, silent, 6) is ErrorCode.UNKNOWN_MEMBER_ID
    again = await engine.classic_groups.join(join_request(living.member_id))
    assert (again.generation, [member.member_id for member in again.members]) == (2, [living.member_id])
    await sync_all(engine, [again])
    assert await commit(engine, living, 7) is ErrorCode.ILLEGAL_GENERATION
    assert await commit(engine, again, 8) is ErrorCode.NONE
    assert await committed(engine) == 8


async def test_members_that_died_yesterday_do_not_make_the_first_of_today_wait_a_session(store: Store) -> None:
    engine = store.engine()
    await sync_all(engine, await join_together(engine, store.engine(1), session_ms=60_000))
    store.clock.advance(86_400)
    before_ms = store.clock.now_ms()
    [alone] = await join_together(store.engine(2))
    assert len(alone.members) == 1
    assert store.clock.now_ms() - before_ms < 5_000


async def test_a_member_that_leaves_is_gone_at_once_and_may_say_so_twice(store: Store) -> None:
    engine = store.engine()
    joined = await join_together(engine, store.engine(1))
    await sync_all(engine, joined)
    left = await engine.classic_groups.leave("g", [ClassicLeave(joined[0].member_id)])
    assert [code for _, code in left.members] == [ErrorCode.NONE]
    again = await engine.classic_groups.leave("g", [ClassicLeave(joined[0].member_id)])
    assert [code for _, code in again.members] == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert await engine.classic_groups.heartbeat(identity(joined[1])) is ErrorCode.REBALANCE_IN_PROGRESS
    assert await commit(engine, joined[0], 3) is ErrorCode.UNKNOWN_MEMBER_ID
    await engine.classic_groups.leave("g", [ClassicLeave(joined[1].member_id)])
    rows = await store.groups.query("g#g")
    assert [row.key.sk for row in rows] == ["group"]  # no session is left behind


@pytest.mark.parametrize("method", ["transact", "put", "update"])
@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.LOST_REQUEST, Fault.UNAVAILABLE, Fault.REPEATED])
async def test_lost_answers_join_once_and_commit_once(store: Store, method: str, fault: Fault) -> None:
    engine = store.engine()
    store.groups.script = {(method, number): fault for number in (1, 2, 4)}
    [joined] = await join_together(engine)
    assert len(joined.members) == 1
    await sync_all(engine, [joined])
    assert await commit(engine, joined, 5) is ErrorCode.NONE
    assert await commit(engine, joined, 6) is ErrorCode.NONE
    assert await committed(engine) == 6


async def test_a_late_commit_changes_nothing(store: Store) -> None:
    engine = store.engine()
    [joined] = await join_together(engine)
    await sync_all(engine, [joined])
    store.groups.script = {("transact", store.groups.count("transact") + 1): Fault.LATE}
    assert await commit(engine, joined, 5) is ErrorCode.NONE
    assert await commit(engine, joined, 9) is ErrorCode.NONE
    assert await store.groups.deliver_late() == 0
    assert await committed(engine) == 9


async def test_a_group_is_of_one_type_while_it_has_members(store: Store) -> None:
    engine = store.engine()
    newer = GroupHeartbeat("g", "m", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], owned={})
    result = await engine.groups.heartbeat(newer)
    refused = await engine.classic_groups.join(join_request())
    assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    await engine.offsets.commit("g", {SEAT: OffsetAndMetadata(4)}, member_id="m", member_epoch=result.member_epoch)
    await engine.groups.heartbeat(GroupHeartbeat("g", "m", -1))
    [joined] = await join_together(engine)
    assert await committed(engine) == 4
    refused_newer = await engine.groups.heartbeat(newer)
    assert refused_newer.error is ErrorCode.GROUP_ID_NOT_FOUND
    [listing] = await engine.groups.list()
    assert (listing.group_type, listing.state) == ("classic", "CompletingRebalance")
    assert await engine.groups.delete(["g"]) == [("g", ErrorCode.NON_EMPTY_GROUP)]
    [simple] = await _simple_commit(engine)
    assert simple is ErrorCode.UNKNOWN_MEMBER_ID
    await engine.classic_groups.leave("g", [ClassicLeave(joined.member_id)])
    assert (await engine.groups.heartbeat(newer)).error is ErrorCode.NONE
    assert await commit(engine, joined, 9) is ErrorCode.UNKNOWN_MEMBER_ID
    assert await committed(engine) == 4
    await engine.groups.heartbeat(GroupHeartbeat("g", "m", -1))
    assert await engine.groups.delete(["g"]) == [("g", ErrorCode.NONE)]
    assert await store.groups.query("g#g") == []


async def _simple_commit(engine: Engine) -> list[ErrorCode]:
    from odradek.errors import KafkaError

    try:
        return [result.error for result in await engine.offsets.commit("g", {SEAT: OffsetAndMetadata(1)})]
    except KafkaError as error:
        return [error.code]


@pytest.mark.parametrize("has_joined", [False, True])
async def test_a_follower_gets_its_generation_though_the_leader_has_begun_the_next(
    store: Store, has_joined: bool
) -> None:
    """The leader assigns and joins again, as a cooperative one that gives a partition up, between the other's polls."""
    clock = ManualClock()  # the follower's: it sleeps until the test wakes it
    quick, slow = store.engine().classic_groups, Store(store.tables, store.objects, clock).engine(1).classic_groups
    patient = {"session_ms": 600_000, "rebalance_ms": 600_000}

    async def until_asleep() -> None:
        while not clock.sleeping:
            await asyncio.sleep(0)

    [leader] = await join_together(store.engine(), **patient)
    await sync_all(store.engine(), [leader])
    joining = asyncio.create_task(slow.join(join_request(**patient)))
    await until_asleep()
    leader = await quick.join(join_request(leader.member_id, **patient))
    assert len(leader.members) == 2
    if has_joined:
        clock.advance(1)
        syncing = asyncio.create_task(slow.sync(ClassicSync(identity(await joining))))
        await until_asleep()
    plan = {member.member_id: member.member_id.encode() for member in leader.members}
    assert (await quick.sync(ClassicSync(identity(leader), assignments=plan))).error is ErrorCode.NONE
    rejoining = asyncio.create_task(quick.join(join_request(leader.member_id, **patient)))
    while await quick.heartbeat(identity(leader)) is not ErrorCode.REBALANCE_IN_PROGRESS:
        await asyncio.sleep(0)
    clock.advance(1)
    follower = await joining
    assert (follower.error, follower.generation) == (ErrorCode.NONE, leader.generation)
    response = await (syncing if has_joined else slow.sync(ClassicSync(identity(follower))))
    assert (response.error, response.assignment) == (ErrorCode.NONE, follower.member_id.encode())
    assert await slow.heartbeat(identity(follower)) is ErrorCode.REBALANCE_IN_PROGRESS
    again = await slow.join(join_request(follower.member_id, **patient))
    assert [again.generation, (await rejoining).generation] == [leader.generation + 1] * 2


async def test_a_quiet_heartbeat_is_one_query_and_one_update(store: Store) -> None:
    engine = store.engine()
    [joined] = await join_together(engine)
    await sync_all(engine, [joined])
    before = len(store.groups.calls)
    assert await engine.classic_groups.heartbeat(identity(joined)) is ErrorCode.NONE
    assert store.groups.calls[before:] == ["query", "update"]


async def test_a_leader_that_heartbeats_but_never_assigns_is_removed(store: Store) -> None:
    engine = store.engine()
    joined = await join_together(engine, store.engine(1), rebalance_ms=1_000, session_ms=600_000)
    [follower] = [result for result in joined if result.leader != result.member_id]
    response = await engine.classic_groups.sync(ClassicSync(identity(follower)))
    assert response.error is ErrorCode.REBALANCE_IN_PROGRESS
    again = await engine.classic_groups.join(join_request(follower.member_id, rebalance_ms=1_000))
    assert [member.member_id for member in again.members] == [follower.member_id]


@pytest.mark.parametrize("seed", range(12))
async def test_members_under_faults_never_share_a_generation_twice_and_never_commit_after_their_time(
    seed: int,
) -> None:
    """Every call is held, lost or delayed by chance; each member works through join, sync, heartbeat and commit."""
    made = memory_store()
    await made.engine().topics.create("t", 4)
    from odradek.testing import ManualClock

    clock = ManualClock()
    scheduler = Scheduler(seed, clock)
    chance = random.Random(seed)
    table = UnreliableTable(made.tables.groups, scheduler, fault_rate=0.06)
    settings = made.engine(group_attempts_max=200, group_session_timeout_ms_min=10).settings
    assignments: dict[tuple[int, str], bytes] = {}
    leaders: dict[int, str] = {}
    taken: list[tuple[int, int]] = []  # generation and stamp order of commits that were taken

    async def live(number: int) -> None:
        groups = ClassicGroups(table, clock, SeededRng(seed * 100 + number), settings)  # type: ignore[arg-type]
        topics = made.engine().topics
        offsets = GroupOffsets(table, topics, clock, SeededRng(seed * 100 + number), settings)  # type: ignore[arg-type]
        member_id, generation = "", -1
        for _ in range(5):
            joined = await groups.join(join_request(member_id, session_ms=2_000, rebalance_ms=3_000))
            if joined.error:
                member_id, generation = "", -1
                continue
            before, member_id = (member_id, generation), joined.member_id
            generation = joined.generation
            if before[1] >= 0:  # a thread that was paused while the next round went by
                [response] = await offsets.commit(
                    "g", {SEAT: OffsetAndMetadata(before[1])}, member_id=before[0], member_epoch=before[1]
                )
                assert response.error in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)
            assert leaders.setdefault(joined.generation, joined.leader) == joined.leader
            plan = {member.member_id: b"%d:%d" % (joined.generation, i) for i, member in enumerate(joined.members)}
            me = identity(joined)
            synced = await groups.sync(ClassicSync(me, assignments=plan))
            if synced.error:
                continue
            assert assignments.setdefault((joined.generation, member_id), synced.assignment) == synced.assignment
            assert synced.assignment.startswith(b"%d:" % joined.generation)
            for _ in range(chance.randrange(4)):
                if await groups.heartbeat(me):
                    break
                [response] = await offsets.commit(
                    "g",
                    {SEAT: OffsetAndMetadata(joined.generation)},
                    member_id=member_id,
                    member_epoch=joined.generation,
                )
                if response.error is ErrorCode.NONE:
                    taken.append((joined.generation, len(taken)))
        if chance.random() < 0.5:
            await groups.leave("g", [ClassicLeave(member_id)])

    await scheduler.run([asyncio.create_task(live(number)) for number in range(5)])
    generations = [generation for generation, _ in taken]
    [final] = await made.engine().offsets.fetch("g", [SEAT])
    if generations:
        assert final.committed is not None
        assert final.committed.offset == max(generations)
    assignments_by_generation: dict[int, list[bytes]] = {}
    for (generation, _), assignment in assignments.items():
        assignments_by_generation.setdefault(generation, []).append(assignment)
    for shares in assignments_by_generation.values():
        assert len(shares) == len(set(shares))


class InterruptedTable:
    """Runs something between the read and the first write of whoever uses it."""

    def __init__(self, table: Any, interruption: Callable[[], Awaitable[object]]) -> None:
        self._table = table
        self._interruption: Callable[[], Awaitable[object]] | None = interruption

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any, **kwargs: Any) -> Any:
            if name in ("put", "transact") and self._interruption is not None:
                interruption, self._interruption = self._interruption, None
                await interruption()
            return await getattr(self._table, name)(*args, **kwargs)

        return call


async def test_two_who_leave_at_once_both_leave(store: Store) -> None:
    engine = store.engine()
    first, second = await join_together(engine, store.engine(1))
    table = InterruptedTable(
        store.tables.groups, lambda: engine.classic_groups.leave("g", [ClassicLeave(second.member_id)])
    )
    slow = ClassicGroups(table, store.clock, SeededRng(9), engine.settings)  # type: ignore[arg-type]
    await slow.leave("g", [ClassicLeave(first.member_id)])
    [listing] = await engine.groups.list()
    assert listing.state == "Empty"


async def test_a_commit_that_is_overtaken_by_the_next_round_is_refused(store: Store) -> None:
    engine = store.engine()
    [joined] = await join_together(engine)
    await sync_all(engine, [joined])

    async def next_round() -> None:
        [other] = await join_together(store.engine(1), rebalance_ms=1_000)
        assert await commit(engine, other, 8) is ErrorCode.REBALANCE_IN_PROGRESS

    table = InterruptedTable(store.tables.groups, next_round)
    offsets = GroupOffsets(table, engine.topics, store.clock, engine.rng, engine.settings)  # type: ignore[arg-type]
    [response] = await offsets.commit(
        "g", {SEAT: OffsetAndMetadata(7)}, member_id=joined.member_id, member_epoch=joined.generation
    )
    assert response.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert await committed(engine) is None
