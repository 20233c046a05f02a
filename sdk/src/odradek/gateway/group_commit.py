"""Produce requests of many connections that meet are one upload (group commit).

Uploads cost by the piece, so a gateway gathers: while a call to the engine is under way, requests that come in wait for
up to the linger and go as one call. Where nothing is under way a request goes at once, so that a lone producer never
waits. A request in a merged call has results of its own; partitions succeed or fail each on its own, as ever.

Order, and who waits for whom:

* Batches of one connection to one partition keep their order. A batch with a producer id has a sequence: while an
  earlier one is in flight it goes alone, at once, and the engine puts it in its place. One without waits instead.
* A call holds a partition once; a request for a partition that is gathered already closes the gathering.
* Transactional batches are gathered by nobody: they wait in the store, not in a log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from odradek.engine.engine import Engine
from odradek.gateway.connection import connection_number
from odradek.model.log import ProducePartition, ProduceResult
from odradek.ports.clock import Clock

MERGED_BYTES_MAX = 8 * 1024 * 1024
_PRODUCER_ID = slice(43, 51)  # in a batch's header (docs/formats/record_batch.md)
_NO_PRODUCER = b"\xff" * 8

_Place = tuple[str, UUID | None, int]  # topic by name or id, partition


@dataclass(slots=True)
class _Request:
    partitions: Sequence[ProducePartition]
    results: asyncio.Future[list[ProduceResult]]


@dataclass(slots=True)
class _Gathering:
    """Requests that will be one call."""

    requests: list[_Request] = field(default_factory=list)
    places: set[_Place] = field(default_factory=set)
    size: int = 0


class GroupCommit:
    """An engine whose `produce` merges; everything else is the engine's.

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
        self._in_flight: dict[tuple[int, _Place], asyncio.Future[Any]] = {}  # the newest of each connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def produce(
        self, partitions: Sequence[ProducePartition], *, transactional_id: str | None = None, **options: Any
    ) -> list[ProduceResult]:
        """As Engine.produce."""
        if transactional_id is not None or self._linger_s == 0:
            return await self._engine.produce(partitions, transactional_id=transactional_id, **options)
        number = connection_number.get()
        places = [_place(each) for each in partitions]
        earlier = [(each, self._in_flight.get((number, place))) for each, place in zip(partitions, places, strict=True)]
        results: asyncio.Future[list[ProduceResult]] = asyncio.get_running_loop().create_future()
        for place in places:
            self._in_flight[number, place] = results
        try:
            waits_for = {before for each, before in earlier if before is not None and not _has_sequence(each)}
            if waits_for:
                await asyncio.wait(waits_for)
            request = _Request(partitions, results)
            if any(before is not None for _, before in earlier) and not waits_for:
                self._call(_Gathering([request]))
            else:
                self._gather(request, places)
            return await results
        finally:
            for place in places:
                if self._in_flight.get((number, place)) is results:
                    del self._in_flight[number, place]
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
        try:
            results = iter(await self._engine.produce(merged))
        except Exception as error:  # the dispatcher answers for it, to each request
            for request in gathering.requests:
                if not request.results.done():
                    request.results.set_exception(error)
            return
        for request in gathering.requests:
            own = [next(results) for _ in request.partitions]
            if not request.results.done():
                request.results.set_result(own)


def _place(partition: ProducePartition) -> _Place:
    return partition.topic, partition.topic_id, partition.partition


def _has_sequence(partition: ProducePartition) -> bool:
    return bytes(partition.records[_PRODUCER_ID]) != _NO_PRODUCER
