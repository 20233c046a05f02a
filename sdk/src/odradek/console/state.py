"""The cluster of a console, and what the console remembers of it."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.client.types import TopicDescription
from odradek.console.audit import AuditTrail
from odradek.console.clusters import OtherCluster, prefix_of
from odradek.console.events import Streams
from odradek.console.rendering import Templates
from odradek.console.sessions import Session, Sessions
from odradek.console.settings import ConsoleSettings
from odradek.errors import ErrorCode, KafkaError
from odradek.operations import metrics
from odradek.operations.alarms import Alarm, read_alarms
from odradek.operations.cluster import Cluster
from odradek.operations.connectors import Connectors
from odradek.operations.history import History
from odradek.operations.metrics import Look, Rates, rates
from odradek.operations.query.query_bounds import QueryBounds
from odradek.operations.records.formats import Decoder
from odradek.operations.sql.jobs import SqlJobs
from odradek.ports.clock import Clock

if TYPE_CHECKING:
    from odradek.console.accounts import Hosted
    from odradek.operations.query.run import Answer

_LOOKS_KEPT = 300
_CONNECT_KEPT = 8
_QUERIES_AT_ONCE = 2
_QUERY_BYTES_MAX = 512 * 1024 * 1024  # that DuckDB may use for a query
_QUERY_ROWS_MAX = 100_000  # of its answer
_STOPPING_S = 5.0  # for a query to end that was stopped
_PRINCIPALS_KEPT = 200
_MANY = 500  # topics: their offsets are decoded apart
_ALARMS_FRESH_S = 30.0
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
        self.past = History()
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
                self.past.add(last, look)
            self._looks = [look]
            return look


def _sessions(settings: ConsoleSettings, clock: Clock, hosted: Hosted | None) -> Sessions:
    if hosted is None:
        return Sessions(settings, clock)
    from odradek.console.accounts import SealedSessions

    return SealedSessions(settings, clock, hosted.sealer)


def _sql_jobs(cluster: Cluster) -> SqlJobs | None:
    """Return the jobs of an embedded service, whose folder is here; None for others: Glue runs theirs."""
    store = cluster.store
    if store is None or not store.data_dir or not cluster.has_metrics:
        return None
    folder = Path(store.data_dir).absolute()
    arguments = ["--bootstrap-servers", cluster.address, "--data-dir", str(folder)]
    return SqlJobs(folder / "sql-jobs", arguments, {})


class ConsoleState:
    """Everything that pages share."""

    def __init__(
        self,
        cluster: Cluster,
        settings: ConsoleSettings,
        clock: Clock,
        *,
        hosted: Hosted | None = None,
        parent: ConsoleState | None = None,
        principal: str = "",
        others: Sequence[OtherCluster] = (),
        name: str = "",
    ) -> None:
        self.cluster = cluster
        self.name = name
        self.others: Mapping[str, OtherCluster] = (
            {other.name: other for other in others} if parent is None else parent.others
        )
        self._root: ConsoleState = self if parent is None else parent._root
        self._named: dict[str, ConsoleState] = {}
        self._connecting = asyncio.Lock()
        self._is_connected = not name  # whoever made this console connects the cluster that it is for
        self.settings = settings
        self.clock = clock
        self.hosted = hosted
        self.templates: Templates = Templates(prefix_of(name)) if parent is None or name else parent.templates
        self.sessions: Sessions = _sessions(settings, clock, hosted) if parent is None else parent.sessions
        trail: AuditTrail = AuditTrail(clock, settings.audit_file) if parent is None else parent.audit
        self.audit: AuditTrail = trail.of(principal) if principal else trail.in_cluster(name) if name else trail
        self.streams: Streams = Streams(settings.streams_max) if parent is None else parent.streams
        self._of: dict[str, ConsoleState] = {}
        self.topics = TopicList(cluster, clock, settings.topics_fresh_s)
        every_s = settings.sample_s if cluster.is_loopback else settings.sample_remote_s
        self.sampler = Sampler(cluster, self.topics, clock, every_s)
        self._decoder: Decoder | None = None
        self._connect: dict[str, Connectors] = {}
        self._querying = asyncio.Semaphore(_QUERIES_AT_ONCE)
        # Threads of their own, so that queries take none that sign-ins and pages need.
        self._queries = ThreadPoolExecutor(_QUERIES_AT_ONCE, thread_name_prefix="console-query")
        self._running: set[QueryBounds] = set()
        self.sql_jobs = _sql_jobs(cluster) if settings.sql_jobs else None
        self._alarms: tuple[float, list[Alarm], str] | None = None

    def connect(self, group: str) -> Connectors:
        """Return a Connect cluster, which stays open: opening it reads its topics."""
        if group not in self._connect:
            while len(self._connect) >= _CONNECT_KEPT:
                self._connect.pop(next(iter(self._connect))).close()
            self._connect[group] = Connectors(self.cluster.configs, group)
        return self._connect[group]

    def close(self) -> None:
        """Release what pages opened. It blocks for a moment."""
        for bounds in list(self._running):
            bounds.stop()
        self._queries.shutdown(wait=False, cancel_futures=True)
        while self._connect:
            self._connect.popitem()[1].close()
        if self.sql_jobs is not None:
            self.sql_jobs.close()
        for state in (*self._of.values(), *self._named.values()):
            state.close()

    async def query(self, text: str, patience_s: float) -> Answer:
        """Run a query over topics (operations.query).

        Raises:
            KafkaError: INVALID_CONFIG without access to the store, INVALID_REQUEST for SQL that is wrong,
                REQUEST_TIMED_OUT; MissingExtra.
        """
        from odradek.operations.query.run import run_query

        if self.cluster.store is None:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, "a query reads the store itself, to which there is no access here"
            )
        options = self.cluster.store.options()
        async with self._querying:
            bounds = QueryBounds(_QUERY_BYTES_MAX, _QUERY_ROWS_MAX)
            self._running.add(bounds)
            work = asyncio.get_running_loop().run_in_executor(
                self._queries, partial(run_query, text, options, bounds=bounds)
            )
            try:
                return await asyncio.wait_for(asyncio.shield(work), patience_s)
            except TimeoutError:
                raise KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT,
                    f"the query took more than {patience_s:.0f} s: ask for less, or use `odradek query`",
                ) from None
            finally:  # also when the browser has left: a query that nobody waits for ends
                bounds.stop()
                with suppress(TimeoutError, Exception):
                    await asyncio.wait_for(asyncio.shield(work), _STOPPING_S)
                self._running.discard(bounds)

    def of(self, session: Session) -> ConsoleState:
        """Return the state of the principal as which a session acts."""
        if self.hosted is None or not session.principal:
            return self
        found = self._of.pop(session.principal, None)
        if found is None:
            cluster = self.hosted.cluster_of(session.principal)
            found = ConsoleState(cluster, self.settings, self.clock, parent=self, principal=session.principal)
            while len(self._of) >= _PRINCIPALS_KEPT:
                self._of.pop(next(iter(self._of))).close()
        self._of[session.principal] = found  # the latest last
        return found

    def named(self, name: str) -> ConsoleState:
        """Return the state of another cluster; it connects when it is first needed (`connect_once`)."""
        if not name:
            return self
        if name not in self._named:
            other = self.others[name]
            self._named[name] = ConsoleState(other.make(), self.settings, self.clock, parent=self, name=name)
        return self._named[name]

    async def connect_once(self) -> None:
        """Connect to a cluster that the console was not started for. Raises KafkaError; the next call tries again."""
        async with self._connecting:
            if self._is_connected:
                return
            try:
                await self.cluster.start()
            except KafkaError:
                self._root._named.pop(self.name, None)  # a client that did not start is spent
                raise
            self._is_connected = True

    async def disconnect(self) -> None:
        """Release the connections to other clusters."""
        for state in self._named.values():
            await state.cluster.close()

    async def warm_up(self) -> None:
        """Load what the first page would wait for: all topics, the registry's address, Arrow. Raises nothing."""
        with suppress(KafkaError):
            await asyncio.to_thread(importlib.import_module, "pyarrow.compute")
            await self.decoder()
            await self.topics.get()

    async def alarms(self) -> tuple[list[Alarm], str]:
        """Return the alarms of a deployment, or why they cannot be read; nothing for other services."""
        prefix = "" if self.cluster.store is None else self.cluster.store.alarm_prefix
        if not prefix or self.cluster.store is None:
            return [], ""
        now_s = self.clock.monotonic()
        if self._alarms is None or now_s - self._alarms[0] > _ALARMS_FRESH_S:
            try:
                found = await asyncio.to_thread(read_alarms, prefix, self.cluster.store.region)
                self._alarms = (now_s, found, "")
            except KafkaError as error:
                self._alarms = (now_s, [], error.message)
        return self._alarms[1], self._alarms[2]

    async def keep_history(self) -> None:
        """Look from time to time, so that a chart has a past when it is opened. Runs until it is cancelled.

        Only at a service on this machine: at a deployed one each look is billed, and CloudWatch has the past.
        """
        while self.cluster.is_loopback and self.settings.history_s > 0:
            with suppress(KafkaError):  # the service is away: the next look may find it
                await self.sampler.look()
            await asyncio.sleep(max(self.settings.history_s, self.sampler.every_s))

    async def decoder(self) -> Decoder:
        """Return the decoder, with the schema registry if the deployment has one."""
        if self._decoder is None:
            registry = await self.cluster.registry_or_none()
            if registry is None:
                return Decoder()
            self._decoder = Decoder(registry)
        return self._decoder
