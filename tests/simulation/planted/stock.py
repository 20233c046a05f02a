"""Planted bugs of the order of a producer's batches: what only clients notice that follow their own rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from odradek.engine.append import conditional_append, order
from odradek.engine.append.conditional_append import ConditionalAppend
from odradek.engine.append.member import Member
from odradek.engine.append.order import AheadAnswer, Turn

from tests.simulation.plan import Scenario
from tests.simulation.planted.bug import bug

_WAIT_S = 0.5


def _java(scenario: Scenario) -> Scenario:
    return replace(scenario, stock_clients=("java",))


def _librdkafka(scenario: Scenario) -> Scenario:
    return replace(scenario, stock_clients=("librdkafka",))


def _recreated(scenario: Scenario) -> Scenario:
    return replace(scenario, stock_clients=("librdkafka", "aiokafka"), stock_recreations=3)


def _waits_half_a_second() -> Iterator[None]:
    """A successor waits 500 ms for its predecessor and is then answered OUT_OF_ORDER_SEQUENCE_NUMBER."""

    async def come(self: Turn) -> None:
        return None

    async def ahead(self: ConditionalAppend, member: Member, verdict: Any) -> Any:
        clock = self._tools.clock
        if member.ahead_until_s is None:
            member.ahead_until_s = clock.monotonic() + _WAIT_S
        if clock.monotonic() >= member.ahead_until_s:
            return verdict.rejection
        await clock.sleep(0.01)
        await self._reread_head()
        return None

    with patch.object(Turn, "come", come), patch.object(ConditionalAppend, "_ahead", ahead):
        yield


@bug("stock", change=_java)
def successor_waits_half_a_second() -> Iterator[None]:
    """Java's producer bumps its epoch by itself, and batches of the old one fail for good."""
    yield from _waits_half_a_second()


@bug("stock", change=_librdkafka)
def successor_waits_half_a_second_for_librdkafka() -> Iterator[None]:
    """librdkafka's producer dies of a batch that is out of order though all before it are acknowledged."""
    yield from _waits_half_a_second()


@bug("stock", change=_recreated)
def unknown_producer_must_begin_at_zero() -> Iterator[None]:
    """A producer that the log does not know is refused, as after a topic was deleted and recreated."""

    def decide(missing: order.Missing, *, is_known: bool) -> AheadAnswer:
        return AheadAnswer.COME_AGAIN if missing.answered < order.LONE_ARRIVALS and is_known else AheadAnswer.GAP

    with patch.object(order, "decide_ahead", decide):
        yield


@bug("stock", seeds=30)
def follower_does_not_wait_for_its_turn() -> Iterator[None]:
    """Batches of a connection go to the head in the order in which their uploads end, and gaps are shown at once."""

    async def come(self: Turn) -> None:
        return None

    def ahead(self: Turn, *, is_known: bool) -> AheadAnswer:
        return AheadAnswer.GAP if is_known else AheadAnswer.TAKE

    with patch.object(Turn, "come", come), patch.object(Turn, "ahead", ahead):
        yield


@bug("connections")
def a_duplicate_answers_for_the_batches_behind_it() -> Iterator[None]:
    """A run whose first batch is in the log already is taken for appended, and what came with it is lost."""
    with patch.object(conditional_append, "as_a_whole", lambda verdict, *_: verdict):
        yield
