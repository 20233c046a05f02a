"""Requests that reach a function twice: a client that repeats, a load balancer, a queue in between; at once or late.

The second delivery is a request to another process of the fleet (a gateway's goes to the gateway itself), which answers
nobody. What is promised is that it changes nothing, with the exceptions that docs/CORRECTNESS.md names; those are not
delivered twice: a plain produce, what an open transaction is told by a protocol that does not bump the epoch, and a
produce that names its topic, within its timeout, once the topic was deleted and recreated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from odradek.errors import ErrorCode, FormatError, KafkaError
from odradek.format.batch_header import iter_headers
from odradek.model.log import ProducePartition, ProduceResult

if TYPE_CHECKING:
    from tests.simulation.world import Process

AGAIN = "-again"  # at the end of the name of whoever takes the second delivery
_LATE_S = (0.0, 0.3, 20.0, 900.0)
_OF_TRANSACTIONS = frozenset({"transactions.end", "transactions.commit_offsets"})
_METHODS = (
    "produce",
    "offsets.commit",
    "groups.heartbeat",
    "classic_groups.sync",
    "classic_groups.heartbeat",
    *sorted(_OF_TRANSACTIONS),
)


def is_delivered_again(caller: str) -> bool:
    """Return True if the process of that name serves a second delivery."""
    return AGAIN in caller


def deliver_some_twice(process: Process) -> None:
    """Have some requests to the process's engine come a second time."""
    if is_delivered_again(process.name):
        return
    for path in _METHODS:
        *rooms, name = path.split(".")
        owner: Any = process.engine
        for room in rooms:
            owner = getattr(owner, room)
        setattr(owner, name, _sometimes_twice(process, path, getattr(owner, name)))


def _sometimes_twice(process: Process, path: str, method: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    world = process.world

    async def call(*args: Any, **kwargs: Any) -> Any:
        if world.weather.random() < world.fates.twice and _changes_nothing(process, path, args, kwargs):
            delay_s = world.weather.choice(_LATE_S)
            world.note(f"{process.name} {path} is delivered again after {delay_s}")
            # Whoever is told results one by one is told those of the first delivery.
            if path == "produce":  # as the dispatcher says of a request that arrives now
                args = (_aging(process, args[0]), *args[1:])
            told_nobody = {name: value for name, value in kwargs.items() if name != "on_result"}
            world.deliver(_again(process, path, method, delay_s, args, told_nobody, _topics(process, path, args)))
        return await method(*args, **kwargs)

    return call


async def _again(
    process: Process,
    path: str,
    method: Callable[..., Awaitable[Any]],
    delay_s: float,
    args: Any,
    kwargs: Any,
    topics: set[UUID],
) -> None:
    await asyncio.sleep(delay_s)
    is_old = delay_s > process.engine.settings.request_timeout_ms / 1000
    if _topics(process, path, args) != topics and not is_old:
        process.world.note(f"{process.name} {path}: another topic has the name")
        return
    taker = process if process.broker_id else process.world.process(f"{process.name}{AGAIN}")

    async def serve() -> None:
        act: Any = method
        if taker is not process:
            act = taker.engine
            for name in path.split("."):
                act = getattr(act, name)
        try:
            results = await act(*args, **kwargs)
            if path == "produce" and is_old:
                _check_topics(process, results, topics)
        except (KafkaError, FormatError) as error:
            taker.world.note(f"{taker.name} {path}: {type(error).__name__}")

    if not taker.dead:
        await taker.run(serve())


def _check_topics(process: Process, results: Sequence[ProduceResult], topics: set[UUID]) -> None:
    """Note a problem if what is older than its time was appended to a topic that was not there when it was sent."""
    for result in results:
        if result.error is ErrorCode.NONE and result.topic_id not in topics:
            process.world.ledger.problem(f"an old request was appended to {result.topic} {result.topic_id}")


def _aging(process: Process, partitions: Sequence[ProducePartition]) -> list[ProducePartition]:
    valid_until_s = process.clock.monotonic() + process.engine.settings.request_timeout_ms / 1000
    return [replace(partition, valid_until_s=valid_until_s) for partition in partitions]


def _topics(process: Process, path: str, args: Any) -> set[UUID]:
    """The topics that have the names in a produce request now."""
    if path != "produce":
        return set()
    ledger, names = process.world.ledger, {request.topic for request in args[0]}
    return {topic_id for topic_id in ledger.live_topics if ledger.topic_names.get(topic_id) in names}


def _changes_nothing(process: Process, path: str, args: Any, kwargs: Any) -> bool:
    """Return True if a second delivery is promised to change nothing."""
    is_transactional = path in _OF_TRANSACTIONS or kwargs.get("transactional_id") is not None
    if is_transactional:
        return process.world.bumps
    if path != "produce":
        return True
    headers = [header for request in args[0] for _, header in iter_headers(request.records)]
    return all(header.producer_id >= 0 for header in headers)
