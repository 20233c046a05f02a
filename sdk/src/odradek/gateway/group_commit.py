"""Group commit: concurrent Produce requests, of many connections or of one, share one upload.

Each upload costs a request, so a gateway gathers: while a call to the engine is in flight, new requests wait for its
end, at most for the linger, and become one call (as the SDK's producer does: client/producer/pace.py). If no call is in
flight, a request is sent at once, so a sole producer never waits. Each request of a merged call gets its own results;
partitions succeed or fail independently, as in any call.

With an interval (`gateway_upload_interval_ms`) a call waits for that instead: it begins no sooner after the one before
it, unless so much waits (`gateway_upload_bytes`). Many producers then cost as many uploads as one does.

Order and waiting:

* Calls start in the order of their requests, and the engine keeps that order for the batches of one producer and of one
  connection (engine/append/order.py).
* Batches for one partition lie next to each other in a call, in the order of their requests, and become one update.
* A client that sends its next request before the answer to the last gathers, too: small requests are worth it, and a
  large one is sent at once and alone. The answers of one call make it send several again, which come one after the
  other: the next call is held for a millisecond, or one request and all the others would take turns.
* A request gets its results as soon as they are complete; slow partitions of other requests do not delay it.
* Transactional batches are not merged here: they are kept in the store, not in a log, until the transaction commits.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from odradek.client.waiting import wait_for
from odradek.engine.engine import Engine
from odradek.model.log import ProducePartition, ProduceResult
from odradek.ports.clock import Clock
from odradek.settings import Settings

MERGED_BYTES_MAX = 8 * 1024 * 1024  # of a call without an interval
FOLLOWER_BYTES_MAX = 256 * 1024  # of a request that waits for the one before it
_ANSWERED_S = 0.001  # for the requests that answers make a client send

_Place = tuple[str, UUID | None, int]  # topic by name or id, partition


@dataclass(slots=True)
class _Request:
    partitions: Sequence[ProducePartition]
    results: asyncio.Future[list[ProduceResult]]
    done: dict[int, ProduceResult] = field(default_factory=dict)  # by position

    def settle(self, index: int, result: ProduceResult) -> None:
        """Note the result of a partition; the last one completes the request."""
        self.done[index] = result
        if len(self.done) == len(self.partitions) and not self.results.done():
            self.results.set_result([self.done[i] for i in range(len(self.partitions))])


@dataclass(slots=True)
class _Gathering:
    """Requests that become one call.

    Attributes:
        has_followers: whether one of them came before the answer to another of its connection for the same partition.
        requests_due: with so many it is complete.
        is_complete: no more are waited for.
    """

    requests: list[_Request] = field(default_factory=list)
    places: set[_Place] = field(default_factory=set)
    size: int = 0
    has_followers: bool = False
    requests_due: float = math.inf
    is_complete: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class _Commit:
    """A call to the engine."""

    requests: int
    has_followers: bool
    began_s: float
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    ended_s: float = 0.0


class GroupCommit:
    """Appends to an engine, several requests at a time.

    Args:
        engine: receives the merged calls.
        clock: for the linger.
        linger_ms: the longest wait of a request for the newest call in flight, without interval; 0: none.
        interval_ms: from the beginning of one call to that of the next, at least; 0: none. Without linger and interval
            requests are not merged.
        full_bytes: of a call that no interval holds back any longer.
    """

    def __init__(
        self, engine: Engine, clock: Clock, linger_ms: int, interval_ms: int = 0, full_bytes: int = MERGED_BYTES_MAX
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._linger_s = linger_ms / 1000
        self._interval_s = interval_ms / 1000
        self._full_bytes = full_bytes
        self._bytes_max = 2 * full_bytes if interval_ms else MERGED_BYTES_MAX
        self._gathering: _Gathering | None = None
        self._calls: set[asyncio.Task[None]] = set()
        self._newest: _Commit | None = None
        self._in_flight: dict[tuple[int | None, _Place], asyncio.Future[Any]] = {}  # the newest of each connection

    @classmethod
    def by_settings(cls, engine: Engine, clock: Clock, settings: Settings) -> GroupCommit:
        """Return what a gateway with these settings appends with."""
        interval_ms, full_bytes = settings.gateway_upload_interval_ms, settings.gateway_upload_bytes
        return cls(engine, clock, settings.gateway_linger_ms, interval_ms, full_bytes)

    async def produce(self, partitions: Sequence[ProducePartition]) -> list[ProduceResult]:
        """Append batches that are not part of a transaction, as Engine.produce does."""
        if not self._linger_s and not self._interval_s:
            return await self._engine.produce(partitions)
        places = [_place(each) for each in partitions]
        keys = [(each.connection, place) for each, place in zip(partitions, places, strict=True)]
        is_behind = any(key in self._in_flight for key in keys)
        results: asyncio.Future[list[ProduceResult]] = asyncio.get_running_loop().create_future()
        self._in_flight.update(dict.fromkeys(keys, results))
        try:
            request = _Request(partitions, results)
            size = sum(len(each.records) for each in partitions)
            if is_behind and size > FOLLOWER_BYTES_MAX and not self._interval_s:
                self._go_alone(request, places)
            else:
                self._gather(request, places, size, is_behind=is_behind)
            return await results
        finally:
            for key in keys:
                if self._in_flight.get(key) is results:
                    del self._in_flight[key]
            if not results.done():
                results.cancel()

    async def drain(self) -> None:
        """Wait for all calls in flight."""
        while self._calls:
            await asyncio.wait(self._calls)

    def _gather(self, request: _Request, places: Sequence[_Place], size: int, *, is_behind: bool) -> None:
        gathering = self._gathering
        if gathering is not None and gathering.size + size > self._bytes_max:
            self._close(gathering)
            gathering = None
        if gathering is None:
            gathering = self._gathering = _Gathering()
            self._start(self._linger(gathering, self._newest))
        gathering.requests.append(request)
        gathering.places.update(places)
        gathering.size += size
        gathering.has_followers |= is_behind
        is_full = bool(self._interval_s) and gathering.size >= self._full_bytes
        if is_full or len(gathering.requests) >= gathering.requests_due:
            gathering.is_complete.set()

    def _go_alone(self, request: _Request, places: Sequence[_Place]) -> None:
        """Send a request in a call of its own, after the gathering if that has one of its partitions."""
        if self._gathering is not None and self._gathering.places.intersection(places):
            self._close(self._gathering)
        self._call(_Gathering([request]))

    async def _linger(self, gathering: _Gathering, newest: _Commit | None) -> None:
        if newest is not None and self._interval_s:
            left_s = newest.began_s + self._interval_s - self._clock.monotonic()
            if left_s > 0:
                await wait_for(gathering.is_complete, left_s, self._clock)
        elif newest is not None:
            await self._meet(gathering, newest)
        if self._gathering is gathering:
            self._gathering = None
            await self._run(gathering)

    async def _meet(self, gathering: _Gathering, newest: _Commit) -> None:
        """Wait for the call in flight, and for the requests that its answers make clients send."""
        before = 0
        if not newest.ended.is_set():
            await wait_for(newest.ended, self._linger_s, self._clock)
            before = len(gathering.requests)
        if newest.ended.is_set() and (newest.has_followers or gathering.has_followers):
            gathering.requests_due = before + newest.requests
            left_s = newest.ended_s + _ANSWERED_S - self._clock.monotonic()
            if len(gathering.requests) < gathering.requests_due and left_s > 0:
                await wait_for(gathering.is_complete, left_s, self._clock)

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
        """Make one call; a request that was cancelled does not keep the others from their results."""
        self._newest = commit = _Commit(len(gathering.requests), gathering.has_followers, self._clock.monotonic())
        by_place: dict[_Place, list[tuple[_Request, int]]] = {}
        for request in gathering.requests:
            for index, partition in enumerate(request.partitions):
                by_place.setdefault(_place(partition), []).append((request, index))
        whose = [each for same in by_place.values() for each in same]
        merged = [request.partitions[index] for request, index in whose]

        def settle(index: int, result: ProduceResult) -> None:
            request, own_index = whose[index]
            request.settle(own_index, result)

        try:
            await self._engine.produce(merged, on_result=settle)
        except Exception as error:  # the dispatcher answers each request with it
            for request in gathering.requests:
                if not request.results.done():
                    request.results.set_exception(error)
        finally:
            commit.ended_s = self._clock.monotonic()
            commit.ended.set()


def _place(partition: ProducePartition) -> _Place:
    return partition.topic, partition.topic_id, partition.partition
