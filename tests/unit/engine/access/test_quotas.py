"""Quotas: what a client used too fast, it is asked to wait for."""

from __future__ import annotations

from odradek.engine.access.quotas import THROTTLE_MS_MAX, Quotas
from odradek.settings import Settings
from odradek.testing.manual_clock import ManualClock


def quotas(clock: ManualClock | None = None, **settings: int) -> Quotas:
    return Quotas(clock or ManualClock(), Settings(**settings))


def test_there_are_none_unless_they_are_set() -> None:
    none = quotas()
    assert none.produced("me", "app", 10**12) == none.fetched("me", "app", 10**12) == 0


def test_a_second_of_the_rate_is_free_and_the_rest_is_waited_for() -> None:
    clock = ManualClock()
    limited = quotas(clock, quota_produce_bytes_per_s=1_000)
    assert limited.produced("me", "app", 600) == 0
    assert limited.produced("me", "app", 400) == 0
    assert limited.produced("me", "app", 500) == 500
    clock.advance(0.5)
    assert limited.produced("me", "app", 100) == 100, "what was owed has been earned, no more"


def test_who_waits_as_asked_gets_the_rate_however_large_the_requests() -> None:
    clock = ManualClock()
    limited = quotas(clock, quota_fetch_bytes_per_s=1_000)
    for _ in range(50):
        clock.advance(limited.fetched("me", "app", 4_000) / 1000)
    assert 196 <= clock.monotonic() <= 200


def test_an_idle_client_saves_up_no_more_than_a_second() -> None:
    clock = ManualClock()
    limited = quotas(clock, quota_produce_bytes_per_s=1_000)
    limited.produced("me", "app", 1)
    clock.advance(3600)
    assert limited.produced("me", "app", 2_000) == 1_000


def test_clients_and_principals_have_quotas_of_their_own() -> None:
    limited = quotas(quota_produce_bytes_per_s=1_000)
    assert limited.produced("me", "app", 2_000) == 1_000
    assert limited.produced("me", "other", 1_000) == 0
    assert limited.produced("you", "app", 1_000) == 0
    assert limited.produced("me", None, 1_000) == 0
    assert limited.fetched("me", "app", 10**9) == 0


def test_requests_are_counted_together_and_the_longer_pause_wins() -> None:
    limited = quotas(quota_requests_per_s=2, quota_produce_bytes_per_s=1_000)
    assert limited.produced("me", "app", 0) == limited.fetched("me", "app", 0) == 0
    assert limited.fetched("me", "app", 0) == 500
    assert limited.produced("me", "app", 6_000) == 5_000


def test_a_pause_is_bounded_and_the_debt_stays() -> None:
    clock = ManualClock()
    limited = quotas(clock, quota_produce_bytes_per_s=1)
    assert limited.produced("me", "app", 100) == THROTTLE_MS_MAX
    clock.advance(THROTTLE_MS_MAX / 1000)
    assert limited.produced("me", "app", 0) == THROTTLE_MS_MAX
