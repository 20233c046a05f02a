"""Quotas: what a client used too fast, it is asked to wait for."""

from __future__ import annotations

import asyncio

import pytest
from odradek.engine.access.client_quotas import ClientQuotas, quota_of
from odradek.engine.access.quotas import THROTTLE_MS_MAX, Quotas
from odradek.errors import ErrorCode, KafkaError
from odradek.model.quota import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    DEFAULT,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    QuotaEntity,
)
from odradek.settings import Settings
from odradek.testing.faults import Fault
from odradek.testing.manual_clock import ManualClock
from odradek.testing.seeded_rng import SeededRng

from tests.support.engine import memory_store


def quotas(clock: ManualClock | None = None, **settings: int) -> Quotas:
    return Quotas(clock or ManualClock(), Settings(**settings))


async def test_there_are_none_unless_they_are_set() -> None:
    none = quotas()
    assert await none.produced("me", "app", 10**12) == await none.fetched("me", "app", 10**12) == 0


async def test_a_second_of_the_rate_is_free_and_the_rest_is_waited_for() -> None:
    clock = ManualClock()
    limited = quotas(clock, quota_produce_bytes_per_s=1_000)
    assert await limited.produced("me", "app", 600) == 0
    assert await limited.produced("me", "app", 400) == 0
    assert await limited.produced("me", "app", 500) == 500
    clock.advance(0.5)
    assert await limited.produced("me", "app", 100) == 100, "what was owed has been earned, no more"


async def test_who_waits_as_asked_gets_the_rate_however_large_the_requests() -> None:
    clock = ManualClock()
    limited = quotas(clock, quota_fetch_bytes_per_s=1_000)
    for _ in range(50):
        clock.advance(await limited.fetched("me", "app", 4_000) / 1000)
    assert 196 <= clock.monotonic() <= 200


async def test_an_idle_client_saves_up_no_more_than_a_second() -> None:
    clock = ManualClock()
    limited = quotas(clock, quota_produce_bytes_per_s=1_000)
    await limited.produced("me", "app", 1)
    clock.advance(3600)
    assert await limited.produced("me", "app", 2_000) == 1_000


async def test_clients_and_principals_have_quotas_of_their_own() -> None:
    limited = quotas(quota_produce_bytes_per_s=1_000)
    assert await limited.produced("me", "app", 2_000) == 1_000
    assert await limited.produced("me", "other", 1_000) == 0
    assert await limited.produced("you", "app", 1_000) == 0
    assert await limited.produced("me", None, 1_000) == 0
    assert await limited.fetched("me", "app", 10**9) == 0


async def test_requests_are_counted_together_and_the_longer_pause_wins() -> None:
    limited = quotas(quota_requests_per_s=2, quota_produce_bytes_per_s=1_000)
    assert await limited.produced("me", "app", 0) == await limited.fetched("me", "app", 0) == 0
    assert await limited.fetched("me", "app", 0) == 500
    assert await limited.produced("me", "app", 6_000) == 5_000


async def test_a_pause_is_bounded_and_the_debt_stays() -> None:
    clock = ManualClock()
    limited = quotas(clock, quota_produce_bytes_per_s=1)
    assert await limited.produced("me", "app", 100) == THROTTLE_MS_MAX
    clock.advance(THROTTLE_MS_MAX / 1000)
    assert await limited.produced("me", "app", 0) == THROTTLE_MS_MAX


async def test_the_most_specific_quota_counts_and_is_shared_by_whom_it_is_for() -> None:
    store, clock = memory_store(), ManualClock()
    quotas = ClientQuotas(store.catalog, clock, SeededRng(1), Settings(acl_cache_ms=0))

    async def give(user: str | None, client: str | None, rate: int | None) -> None:
        await quotas.alter(QuotaEntity(user, client), {PRODUCER_BYTE_RATE: rate})

    for entity, bytes_per_s in (
        ((None, DEFAULT), 100_000),
        ((None, "app"), 110_000),
        ((DEFAULT, None), 120_000),
        ((DEFAULT, DEFAULT), 130_000),
        ((DEFAULT, "app"), 140_000),
        (("ada", None), 150_000),
        (("ada", DEFAULT), 160_000),
        (("ada", "app"), 170_000),
    ):
        await give(*entity, bytes_per_s)
        quota = quota_of(await quotas.current(), PRODUCER_BYTE_RATE, "User:ada", "app")
        assert quota is not None
        assert quota[1] == bytes_per_s
    assert quota_of(await quotas.current(), PRODUCER_BYTE_RATE, "User:bob", "x") == (QuotaEntity("bob", "x"), 130_000)
    assert quota_of(await quotas.current(), CONSUMER_BYTE_RATE, "User:ada", "app") is None
    for entity in await quotas.list():
        await give(entity.user, entity.client_id, None)
    assert await quotas.list() == {}


async def test_clients_of_a_user_share_its_quota() -> None:
    clock = ManualClock()
    quotas = ClientQuotas(memory_store().catalog, clock, SeededRng(1), Settings(acl_cache_ms=0))
    limited = Quotas(clock, Settings(), quotas)
    await quotas.alter(QuotaEntity("ada"), {PRODUCER_BYTE_RATE: 1_000, CONSUMER_BYTE_RATE: 10})
    assert await limited.produced("User:ada", "one", 1_000) == 0
    assert await limited.produced("User:ada", "two", 1_000) == 1_000
    assert await limited.produced("User:bob", "one", 10**9) == 0
    assert await limited.fetched("User:ada", "one", 20) == 1_000
    await quotas.alter(QuotaEntity(DEFAULT), {PRODUCER_BYTE_RATE: 1_000})
    assert await limited.produced("User:bob", "one", 2_000) == 1_000
    assert await limited.produced("User:cid", "one", 1_000) == 0, "a default is each user's own"


@pytest.mark.parametrize(
    ("entity", "changes"),
    [
        (QuotaEntity(), {PRODUCER_BYTE_RATE: 1.0}),
        (QuotaEntity("ada"), {PRODUCER_BYTE_RATE: 0.5}),
        (QuotaEntity("ada"), {PRODUCER_BYTE_RATE: float("nan")}),
        (QuotaEntity("ada"), {PRODUCER_BYTE_RATE: float("inf")}),
        (QuotaEntity("ada"), {PRODUCER_BYTE_RATE: 1.5}),
        (QuotaEntity("ada"), {REQUEST_PERCENTAGE: 0.0001}),
        (QuotaEntity("ada"), {REQUEST_PERCENTAGE: float("nan")}),
        (QuotaEntity("ada"), {CONNECTION_CREATION_RATE: 1.0}),
        (QuotaEntity(ip="::1"), {REQUEST_PERCENTAGE: 1.0}),
        (QuotaEntity("ada", ip="::1"), {CONNECTION_CREATION_RATE: 1.0}),
        (QuotaEntity(ip="somewhere"), {CONNECTION_CREATION_RATE: 1.0}),
        (QuotaEntity("a" * 3_000), {PRODUCER_BYTE_RATE: 1.0}),
    ],
)
async def test_a_quota_that_cannot_be_kept_is_refused(entity: QuotaEntity, changes: dict[str, float]) -> None:
    quotas = ClientQuotas(memory_store().catalog, ManualClock(), SeededRng(1), Settings())
    with pytest.raises(KafkaError) as refused:
        await quotas.alter(entity, changes)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert await quotas.list() == {}


async def test_without_an_answer_of_the_catalog_the_last_quotas_count() -> None:
    store, clock = memory_store(), ManualClock()
    quotas = ClientQuotas(store.catalog, clock, SeededRng(1), Settings(acl_cache_ms=10))
    await quotas.alter(QuotaEntity("ada"), {PRODUCER_BYTE_RATE: 7})
    assert await quotas.current() == {QuotaEntity("ada"): {PRODUCER_BYTE_RATE: 7}}
    clock.advance(1)
    store.catalog.script[("query", store.catalog.count("query") + 1)] = Fault.UNAVAILABLE
    assert await quotas.current() == {QuotaEntity("ada"): {PRODUCER_BYTE_RATE: 7}}


async def limited_by(clock: ManualClock, entity: QuotaEntity, **values: float) -> Quotas:
    quotas = ClientQuotas(memory_store().catalog, clock, SeededRng(1), Settings(acl_cache_ms=0))
    await quotas.alter(entity, values)
    await quotas.current()
    return Quotas(clock, Settings(), quotas)


async def test_only_the_steps_of_a_request_count_and_not_its_waits() -> None:
    clock = ManualClock()
    limited = await limited_by(clock, QuotaEntity("ada"), **{REQUEST_PERCENTAGE: 25.0})
    assert await limited.busy_time("User:bob", "app") is None
    busy = await limited.busy_time("User:ada", "app")
    assert busy is not None

    async def work() -> str:
        clock.advance(0.125)
        other = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(lambda: (clock.advance(7), other.set_result(None)))
        await other
        clock.advance(0.125)
        try:
            raise KeyError
        finally:
            clock.advance(0.25)

    with pytest.raises(KeyError):
        await busy.of(work())
    assert busy.seconds == pytest.approx(0.5)
    assert await limited.busy("User:ada", "app", busy.seconds) == 1_000, "two seconds, one of them free"
    assert await limited.produced("User:ada", "other", 10**9) == 1_000
    clock.advance(1)
    assert await limited.fetched("User:ada", "app", 10**9) == 0


async def test_a_cancelled_request_is_cancelled_within_its_measurement() -> None:
    clock = ManualClock()
    limited = await limited_by(clock, QuotaEntity("ada"), **{REQUEST_PERCENTAGE: 25.0})
    busy = await limited.busy_time("User:ada", "app")
    assert busy is not None
    ended = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    task = asyncio.ensure_future(busy.of(work()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended


async def test_partitions_may_be_changed_until_the_rate_of_eleven_seconds_is_used_up() -> None:
    clock = ManualClock()
    limited = await limited_by(clock, QuotaEntity("ada"), **{CONTROLLER_MUTATION_RATE: 0.5})
    quota = await limited.mutations("User:ada", "app")
    quota.check(is_strict=True)
    quota.record(6)
    assert quota.throttle_ms == 1_000
    quota.check(is_strict=False)
    with pytest.raises(KafkaError, match="try again in 1000 ms") as refused:
        quota.check(is_strict=True)
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    clock.advance(1)
    quota.check(is_strict=True)
    other = await limited.mutations("User:bob", "app")
    other.record(10**6)
    assert (other.throttle_ms, other.is_limited) == (0, False)


async def test_connections_of_an_address_are_taken_at_its_rate() -> None:
    clock = ManualClock()
    limited = await limited_by(clock, QuotaEntity(ip=DEFAULT), **{CONNECTION_CREATION_RATE: 2})
    assert [limited.connected("192.0.2.1") for _ in range(24)] == [True] * 22 + [False] * 2
    assert limited.connected("192.0.2.2")
    clock.advance(1)
    assert [limited.connected("192.0.2.1") for _ in range(4)] == [True, True, False, False]
