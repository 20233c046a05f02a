"""The lag of groups: of every type, the same as their descriptions say, and of a bounded number."""

from __future__ import annotations

import pytest
from odradek.engine.engine import Engine
from odradek.engine.maintenance import group_lag
from odradek.functions.metrics import Metrics
from odradek.functions.telemetry import backlog_line
from odradek.model.classic_group import ClassicJoin
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition
from odradek.operations.metrics import backlog_warnings, parse_numbers

from tests.support.clients.share_member import ACCEPT, ShareMember, ack
from tests.support.clients.streams_member import StreamsMember, settle
from tests.support.engine import Store, batch, memory_store, produce

ORDERS = TopicPartition("orders", 0)


async def log_of(records: int) -> tuple[Store, Engine]:
    store = memory_store()
    engine = store.engine(catalog_cache_ms=0, group_assignment_interval_ms=0)
    await engine.topics.create("orders", 4)
    for _ in range(records):
        assert not (await produce(engine, "orders", 0, batch([b"x"]))).error
    return store, engine


async def lag_of(engine: Engine) -> dict[str, int]:
    return dict((await engine.backlogs.look()).group_lag)


@pytest.mark.parametrize("taken", [0, 1, 4])
async def test_the_lag_of_a_share_group_is_what_it_has_not_processed(taken: int) -> None:
    """Also of records that are done after one that is not."""
    _, engine = await log_of(10)
    await engine.group_configs.alter("q", set={"share.auto.offset.reset": "earliest"})
    member = ShareMember(engine, "one", "orders")
    await member.beat()
    assert len(await member.fetch()) == 10
    if taken:
        await member.acknowledge({member.of(0): [ack(3, 2 + taken, ACCEPT)]})
    [described] = [row for row in await engine.share_offsets.describe("q", None) if row.partition == 0]
    assert described.lag == 10 - taken
    assert await lag_of(engine) == {"q": 10 - taken}


async def test_the_lag_of_a_streams_group_is_what_it_has_not_committed() -> None:
    store, engine = await log_of(10)
    await engine.group_configs.alter("app", set={"streams.initial.rebalance.delay.ms": "0"})
    member = StreamsMember(engine, "one")
    await settle([member], store.clock)
    results = await engine.offsets.commit(
        "app", {ORDERS: OffsetAndMetadata(4)}, member_id=member.member_id, member_epoch=member.epoch
    )
    assert not any(result.error for result in results)
    assert await lag_of(engine) == {"app": 6}


async def test_the_lag_of_a_classic_group_and_of_offsets_alone() -> None:
    _, engine = await log_of(10)
    await engine.offsets.commit("set", {ORDERS: OffsetAndMetadata(7)})
    assert await lag_of(engine) == {"set": 3}
    joining = ClassicJoin("old", "", "consumer", (("range", b""),), 10_000, 10_000, requires_known_member_id=False)
    assert not (await engine.classic_groups.join(joining)).error
    assert await lag_of(engine) == {"old": 0, "set": 3}


async def test_groups_beyond_the_bound_are_counted_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_lag, "GROUPS_MAX", 3)
    _, engine = await log_of(10)
    for number in range(5):
        await engine.offsets.commit(f"g{number}", {ORDERS: OffsetAndMetadata(number)})
    backlog = await engine.backlogs.look()
    assert backlog.group_lag == {"g0": 10, "g1": 9, "g2": 8}
    assert backlog.groups_unmeasured == 2
    numbers = parse_numbers(Metrics().text(backlog))
    assert numbers.gauges["groups_unmeasured"] == 2
    assert "The lag of 2 groups is not measured: there are too many groups." in backlog_warnings(numbers.gauges)
    assert '"groups_unmeasured":2' in backlog_line(backlog)
