"""Produce requests of many connections that meet are one upload (group commit).

Uploads cost by the piece, so a gateway gathers: while a call to the engine is under way, requests that come in wait for
up to the linger and go as one call. Where nothing is under way a request goes at once, so that a lone producer never
waits. A request in a merged call has results of its own; partitions succeed or fail each on its own, as ever.

Order, and who waits for whom:

* Calls begin in the order of their requests, which is the order that the engine keeps for batches of one producer, and
  of one connection (engine/append/order.py). A request whose partition is in flight already goes alone, at once.
* A call holds a partition once; a request for a partition that is gathered already closes the gathering.
* A request has its results as soon as they are there: a partition that waits holds up nobody else's.
* Transactional batches do not come here: they wait in the store, not in a log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from odradek.engine.engine import Engine
from odradek.model.log import ProducePartition, ProduceResult
from odradek.ports.clock import Clock

MERGED_BYTES_MAX = 8 * 1024 * 1024

_Place = tuple[str, UUID | None, int]  # topic by name or id, partition


@dataclass(slots=True)
class _Request:
    partitions: Sequence[ProducePartition]
    results: asyncio.Future[list[ProduceResult]]
    done: dict[int, ProduceResult] = field(default_factory=dict)  # by position

    def settle(self, index: int, result: ProduceResult) -> None:
        """Note the result of a partition; the request's are complete with the last."""
        self.done[index] = result
        if len(self.done) == len(self.partitions) and not self.results.done():
            self.results.set_result([self.done[i] for i in range(len(self.partitions))])


@dataclass(slots=True)
class _Gathering:
    """Requests that will be one call."""

    requests: list[_Request] = field(default_factory=list)
    places: set[_Place] = field(default_factory=set)
    size: int = 0


class GroupCommit:
    """Appends to an engine, several requests at a time.

    Args:
        engine: what is merged for.
        clock: for the linger.
        linger_ms: the longest that a request waits for others; 0 merges nothing.
    """

    def __init__(self, engine: Engine, clock: Clock, linger_ms: int) -> None:
        self._engine = engine
        self._clock = clock
        self._linger_s = linger_ms / 1000
        self._gathering: _Gathering | None = None
        self._calls: set[asyncio.Task[None]] = set()
        self._in_flight: dict[tuple[int | None, _Place], asyncio.Future[Any]] = {}  # the newest of each connection

    async def produce(self, partitions: Sequence[ProducePartition]) -> list[ProduceResult]:
        """As Engine.produce, of batches that are part of no transaction."""
        if self._linger_s == 0:
            return await self._engine.produce(partitions)
        places = [_place(each) for each in partitions]
        keys = [(each.connection, place) for each, place in zip(partitions, places, strict=True)]
        is_behind = any(key in self._in_flight for key in keys)
        results: asyncio.Future[list[ProduceResult]] = asyncio.get_running_loop().create_future()
        self._in_flight.update(dict.fromkeys(keys, results))
        try:
            request = _Request(partitions, results)
            if is_behind:
                self._go_alone(request, places)
            else:
                self._gather(request, places)
            return await results
        finally:
            for key in keys:
                if self._in_flight.get(key) is results:
                    del self._in_flight[key]
            if not results.done():
                results.cancel()

    async def drain(self) -> None:
        """Wait for all calls that are under way."""
        while self._calls:
            await asyncio.wait(self._calls)

    def _gather(self, request: _Request, places: Sequence[_Place]) -> None:
        size = sum(len(each.records) for each in request.partitions)
        gathering = self._gathering
        if gathering is not None and (
            gathering.places.intersection(places) or gathering.size + size > MERGED_BYTES_MAX
        ):
            self._close(gathering)
            gathering = None
        if gathering is None:
            gathering = self._gathering = _Gathering()
            self._start(self._linger(gathering, self._linger_s if self._calls else 0.0))
        gathering.requests.append(request)
        gathering.places.update(places)
        gathering.size += size

    def _go_alone(self, request: _Request, places: Sequence[_Place]) -> None:
        """One call for it, after the call of what is gathered for its partitions."""
        if self._gathering is not None and self._gathering.places.intersection(places):
            self._close(self._gathering)
        self._call(_Gathering([request]))

    async def _linger(self, gathering: _Gathering, seconds: float) -> None:
        if seconds:
            await self._clock.sleep(seconds)
        if self._gathering is gathering:
            self._gathering = None
            await self._run(gathering)

    def _close(self, gathering: _Gathering) -> None:
        self._gathering = None
        self._call(gathering)

    def _call(self, gathering: _Gathering) -> None:
        self._start(self._run(gathering))

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _run(self, gathering: _Gathering) -> None:
        """One call; whoever gave up waiting does not keep the others from their results."""
        merged = [each for request in gathering.requests for each in request.partitions]
        whose = [(request, index) for request in gathering.requests for index in range(len(request.partitions))]

        def settle(index: int, result: ProduceResult) -> None:
            request, own_index = whose[index]
            request.settle(own_index, result)

        try:
            await self._engine.produce(merged, on_result=settle)
        except Exception as error:  # the dispatcher answers for it, to each request
            for request in gathering.requests:
                if not request.results.done():
                    request.results.set_exception(error)


def _place(partition: ProducePartition) -> _Place:
    return partition.topic, partition.topic_id, partition.partition
