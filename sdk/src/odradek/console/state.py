"""The cluster of a console, and what the console remembers of it."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass

from odradek.client.types import TopicDescription
from odradek.console.audit import AuditTrail
from odradek.console.events import Streams
from odradek.console.rendering import Templates
from odradek.console.sessions import Sessions
from odradek.console.settings import ConsoleSettings
from odradek.errors import KafkaError
from odradek.operations import metrics
from odradek.operations.cluster import Cluster
from odradek.operations.metrics import Look, Rates, rates
from odradek.operations.records.formats import Decoder
from odradek.ports.clock import Clock

_LOOKS_KEPT = 300
_MANY = 500  # topics: their offsets are decoded apart
_SHARE = 10  # pauses between two looks are so many times as long as a look


@dataclass(slots=True)
class _Topics:
    by_name: dict[str, TopicDescription]
    read_s: float  # when, on the scale of `monotonic`
    took_s: float


class TopicList:
    """All topics, remembered: reading ten thousand takes seconds. A stale list is shown while it is read again."""

    def __init__(self, cluster: Cluster, clock: Clock, fresh_s: float) -> None:
        self._cluster, self._clock, self._fresh_s = cluster, clock, fresh_s
        self._known: _Topics | None = None
        self._reading: asyncio.Task[_Topics] | None = None

    async def get(self) -> dict[str, TopicDescription]:
        """Return all topics by name. Raises KafkaError."""
        if self._known is None:
            return (await asyncio.shield(self._read())).by_name
        if self._clock.monotonic() - self._known.read_s > max(self._fresh_s, _SHARE * self._known.took_s):
            self._read()
        return self._known.by_name

    async def changed(self, name: str) -> None:
        """Read one topic again, after a change of it."""
        if self._known is None:
            return
        self._known.by_name.pop(name, None)
        try:
            self._known.by_name |= await self._cluster.admin.describe_topics([name])
        except KafkaError:
            pass  # it was deleted

    def _read(self) -> asyncio.Task[_Topics]:
        if self._reading is None or self._reading.done():
            self._reading = asyncio.get_running_loop().create_task(self._read_all())
            self._reading.add_done_callback(lambda task: task.cancelled() or task.exception())
        return self._reading

    async def _read_all(self) -> _Topics:
        started_s = self._clock.monotonic()
        found = await self._cluster.apart(lambda other: other.admin.describe_topics())
        took_s = self._clock.monotonic() - started_s
        self._known = _Topics(dict(sorted(found.items())), started_s, took_s)
        return self._known


class Sampler:
    """Looks at the service while somebody watches a chart, and shares what it sees between all who watch."""

    def __init__(self, cluster: Cluster, topics: TopicList, clock: Clock, every_s: float) -> None:
        self._cluster, self._topics, self._clock, self._every_s = cluster, topics, clock, every_s
        self._looks: list[Look] = []
        self._took_s = 0.0
        self.history: list[Rates] = []
        self._looking = asyncio.Lock()

    @property
    def every_s(self) -> float:
        """Seconds between two looks: longer where a look takes long, so that looking is a small part of the load."""
        return max(self._every_s, _SHARE * self._took_s)

    @property
    def last(self) -> Look | None:
        return self._looks[-1] if self._looks else None

    async def watch(self) -> AsyncGenerator[Rates]:
        """Yield the rates since the last look, until the iterator is closed. Raises KafkaError."""
        seen = self.history[-1].at_ms if self.history else 0
        while True:
            await self.look()
            for each in [rate for rate in self.history if rate.at_ms > seen]:
                seen = each.at_ms
                yield each
            await asyncio.sleep(self.every_s)

    async def recent(self, patience_s: float) -> Look | None:
        """Return a new look if it takes no longer than `patience_s`, else the last one; None if there is none yet."""
        looking = asyncio.get_running_loop().create_task(self.look())
        looking.add_done_callback(lambda task: task.cancelled() or task.exception())
        done, _ = await asyncio.wait({looking}, timeout=patience_s)
        return looking.result() if done else self.last

    async def look(self) -> Look:
        """Look, unless somebody just did."""
        async with self._looking:
            now_ms = self._clock.now_ms()
            last = self.last
            if last is not None and now_ms - last.at_ms < 900 * self.every_s:
                return last
            started_s = self._clock.monotonic()
            topics = await self._topics.get()
            if len(topics) > _MANY:
                look = await self._cluster.apart(lambda other: metrics.look(other, topics, now_ms))
            else:
                look = await metrics.look(self._cluster, topics, now_ms)
            self._took_s = self._clock.monotonic() - started_s
            if last is not None:
                self.history = [*self.history, rates(last, look)][-_LOOKS_KEPT:]
            self._looks = [look]
            return look


class ConsoleState:
    """Everything that pages share."""

    def __init__(self, cluster: Cluster, settings: ConsoleSettings, clock: Clock) -> None:
        self.cluster = cluster
        self.settings = settings
        self.clock = clock
        self.templates = Templates()
        self.sessions = Sessions(settings, clock)
        self.audit = AuditTrail(clock, settings.audit_file)
        self.streams = Streams(settings.streams_max)
        self.topics = TopicList(cluster, clock, settings.topics_fresh_s)
        every_s = settings.sample_s if cluster.is_loopback else settings.sample_remote_s
        self.sampler = Sampler(cluster, self.topics, clock, every_s)
        self._decoder: Decoder | None = None

    async def warm_up(self) -> None:
        """Load what the first page would wait for: all topics, the registry's address, Arrow. Raises nothing."""
        with suppress(KafkaError):
            await asyncio.to_thread(importlib.import_module, "pyarrow.compute")
            await self.decoder()
            await self.topics.get()

    async def decoder(self) -> Decoder:
        """Return the decoder, with the schema registry if the deployment has one."""
        if self._decoder is None:
            registry = await self.cluster.registry_or_none()
            if registry is None:
                return Decoder()
            self._decoder = Decoder(registry)
        return self._decoder
