"""Overview: what happens now. Charts live by server-sent events; the first numbers are in the page itself."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from odradek.client.types import TopicDescription
from odradek.console.events import Event
from odradek.console.pages.base import page, render, state_of, streamed
from odradek.console.state import ConsoleState
from odradek.cost.prices import cost
from odradek.errors import KafkaError
from odradek.operations.groups import list_groups
from odradek.operations.health.checks import Finding, check_reach
from odradek.operations.metrics import Rates, backlog_warnings
from odradek.operations.topics import is_internal, sizes_of

_TOP = 8
_TOPICS_SIZED = 500  # whose sizes are read for one figure
_TOPICS_SIZED_REMOTE = 50  # where each is billed
_PATIENCE_S = 2.0  # for the first look at a log of many topics
CHARTS = (
    ("records", "Records written", "records/s", "/topics?sort=records&desc=1", "to all topics, by every producer"),
    ("bytes_in", "Bytes in", "B/s", "/topics?sort=size&desc=1", "of produce and all other requests"),
    ("bytes_out", "Bytes out", "B/s", "/groups", "of fetches and all other responses"),
    ("requests", "Requests", "requests/s", "/health", "of all clients, this console's too"),
    ("lag", "Lag of all groups", "records", "/groups?sort=lag&desc=1", "written and not committed yet"),
    ("dollars_hour", "Cost on AWS", "$/h", "/costs", "of these requests at list prices, without storage"),
)


@page
async def overview(request: Request) -> Response:
    state = state_of(request)
    topics = await state.topics.get()
    look = await state.sampler.recent(_PATIENCE_S)
    groups = await list_groups(state.cluster.admin)
    alarms, alarms_problem = await state.alarms()
    numbers = None if look is None else look.numbers
    states = Counter(group.state for group in groups)
    shown = [topic for topic in topics.values() if not is_internal(topic)]
    return render(
        request,
        "overview.html",
        topic_count=len(shown),
        internal_count=len(topics) - len(shown),
        partition_count=sum(each.partition_count for each in topics.values()),
        records=None if look is None else look.records,
        group_count=len(groups),
        states=", ".join(f"{count} {state.lower()}" for state, count in sorted(states.items())),
        numbers=numbers,
        spent=None if numbers is None else cost(numbers.usage),
        lag=sorted(numbers.lag.items(), key=lambda each: -each[1])[:_TOP] if numbers is not None else [],
        busiest=[] if look is None else sorted(look.by_topic.items(), key=lambda each: -each[1])[:_TOP],
        is_reading=look is None,
        errors=sorted(numbers.errors.items(), key=lambda each: -each[1])[:_TOP] if numbers is not None else [],
        warnings=[] if numbers is None else backlog_warnings(numbers.gauges),
        alarms=alarms,
        alarms_problem=alarms_problem,
        stored=await _stored(state, list(topics.values())),
        findings=await _findings(state),
        has_metrics=state.cluster.has_metrics,
        charts=CHARTS if state.cluster.has_metrics else CHARTS[:1],  # one look may fail: the next ones draw
    )


async def _stored(state: ConsoleState, topics: list[TopicDescription]) -> int | None:
    """Return the bytes that all topics hold; None for too many to ask for, and where the service does not say."""
    if len(topics) > (_TOPICS_SIZED if state.cluster.is_loopback else _TOPICS_SIZED_REMOTE):
        return None
    try:
        return sum((await sizes_of(state.cluster.admin, topics)).values()) if topics else 0
    except KafkaError:
        return None  # a topic was deleted meanwhile, or may not be described


async def _findings(state: ConsoleState) -> list[Finding]:
    """Return what `odradek doctor` finds without changing anything; nothing for a Kafka port."""
    if not state.cluster.address.startswith("http"):
        return []
    return await asyncio.to_thread(check_reach, state.cluster.address)


@page
async def overview_events(request: Request) -> Response:
    state = state_of(request)
    return streamed(request, _rates(state))


async def _rates(state: ConsoleState) -> AsyncGenerator[Event]:
    for each in state.sampler.history[-120:]:
        yield "rates", _point(each)
    async with aclosing(state.sampler.watch()) as watching:
        async for each in watching:
            yield "rates", _point(each)


def _point(rates: Rates) -> dict[str, Any]:
    point = asdict(rates)
    topics = sorted(point.pop("by_topic").items(), key=lambda each: -each[1])[:_TOP]
    return {**point, "lag": sum(rates.lag.values()), "topics": [[name, value] for name, value in topics if value]}
