"""Requests of a connection enter one after the other, whoever lets the next one follow, and how often."""

from __future__ import annotations

import asyncio

from odradek.dispatcher.arrival import Arrival


async def test_a_request_enters_after_all_before_it_though_one_lets_the_next_follow_twice() -> None:
    first = Arrival(None)
    second = Arrival(first)
    third = Arrival(second)
    waiting = asyncio.ensure_future(third.turn())
    second.enter()
    second.enter()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done(), "the first has not entered"
    first.enter()
    await asyncio.wait_for(waiting, 10)
