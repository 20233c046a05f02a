"""The persistent queries of a server: one that fails is started again, after growing pauses.

    running ──fails──> failed, for up to 1 s, 2 s ... 60 s ──> running

A query that has run for five minutes has recovered: its pauses begin anew. It goes on from its checkpoint, so that a
failure costs time and nothing else. SHOW QUERIES and DESCRIBE ... EXTENDED show the state and the last error.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from odradek.backoff import Backoff
from odradek.errors import KafkaError
from odradek.sql.plan import QueryPlan
from odradek.sql.planning.upgrades import Basis
from odradek.sql.session import Row, Runner
from odradek.system import SystemClock, SystemRng

_log = logging.getLogger("odradek.sql.server")
_POLL_S = 1.0
_RECOVERED_S = 300.0
_CLOCK = SystemClock()
_BACKOFF = Backoff(_CLOCK, SystemRng(), first_s=1.0, max_s=60.0)


class Engine(Runner, Protocol):
    """What a server asks of an engine, beyond what a script does."""

    def changes(
        self, plan: QueryPlan, show: Callable[[list[Row]], None], *, once: bool, until: threading.Event | None = None
    ) -> None:
        """Show rows as they arrive, up to the plan's limit, or until an event is set."""
        ...

    def failure(self, query_id: str) -> str | None:
        """Return why a started query no longer runs, None while it runs."""
        ...

    def insert_documents(self, plan: QueryPlan, documents: list[bytes]) -> None:
        """Write rows that are JSON objects to the plan's sink."""
        ...


@dataclass(slots=True)
class _Supervised:
    plan: QueryPlan
    started_s: float
    error: str = ""
    failed_ms: int = 0
    again_s: float | None = None  # when it starts again; None: it runs
    attempt: int = 0  # failures in a row


class Supervisor:
    """Runs plans as the engine does, and keeps persistent queries running."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._queries: dict[str, _Supervised] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Watch the queries from now on."""
        self._thread = threading.Thread(target=self._watch, name="sql-supervisor", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop all queries."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        for query_id in list(self._queries):
            self.stop(query_id)

    # --- persistent queries

    def start(self, plan: QueryPlan) -> None:
        """Start a persistent query. Raises KafkaError."""
        self._engine.start(plan)
        with self._lock:
            self._queries[plan.query_id] = _Supervised(plan, _CLOCK.monotonic())

    def failed(self, plan: QueryPlan, error: str) -> None:
        """Take on a query that could not be started: it is tried again."""
        with self._lock:
            query = self._queries.setdefault(plan.query_id, _Supervised(plan, _CLOCK.monotonic()))
            self._note(query, error)

    def stop(self, query_id: str) -> None:
        """Stop a query, if it runs."""
        with self._lock:
            self._queries.pop(query_id, None)
        self._engine.stop(query_id)

    def forget(self, query_id: str) -> None:
        """Remove the checkpoint of a stopped query."""
        self._engine.forget(query_id)

    def state(self, query_ids: tuple[str, ...]) -> str:
        """Return RUNNING or, if one of a query's steps failed, ERROR."""
        with self._lock:
            found = [self._queries[each] for each in query_ids if each in self._queries]
        return "ERROR" if any(each.again_s is not None for each in found) else "RUNNING"

    def errors(self, query_ids: tuple[str, ...]) -> list[dict[str, Any]]:
        """Return the last error of each step of a query that failed."""
        with self._lock:
            found = [self._queries[each] for each in query_ids if each in self._queries]
        return [{"timestamp": each.failed_ms, "errorMessage": each.error, "type": "UNKNOWN"}
                for each in found if each.error]  # fmt: skip

    def _watch(self) -> None:
        while not self._stop.wait(_POLL_S):
            with self._lock:
                queries = list(self._queries.values())
            for query in queries:
                try:
                    self._look_at(query)
                except Exception:  # the others must be watched on
                    _log.exception("query %s", query.plan.query_id)

    def _look_at(self, query: _Supervised) -> None:
        now = _CLOCK.monotonic()
        if query.again_s is None:
            failure = self._engine.failure(query.plan.query_id)
            if failure is not None:
                with self._lock:
                    self._note(query, failure)
            elif now - query.started_s > _RECOVERED_S:
                query.attempt = 0
        elif now >= query.again_s:
            self._again(query)

    def _note(self, query: _Supervised, error: str) -> None:
        query.error, query.failed_ms = error, _CLOCK.now_ms()
        pause_s = _BACKOFF.delay_s(query.attempt)
        query.again_s = _CLOCK.monotonic() + pause_s
        query.attempt += 1
        _log.error("query %s failed and starts again in %.1f s: %s", query.plan.query_id, pause_s, error)

    def _again(self, query: _Supervised) -> None:
        self._engine.stop(query.plan.query_id)
        with self._lock:
            if self._queries.get(query.plan.query_id) is not query:
                return  # it was stopped meanwhile
            query.again_s, query.started_s = None, _CLOCK.monotonic()
            try:
                self._engine.start(query.plan)
            except KafkaError as error:
                self._note(query, error.message)

    # --- everything else is the engine's

    def rows(self, plan: QueryPlan) -> list[Row]:
        return self._engine.rows(plan)

    def changes(
        self, plan: QueryPlan, show: Callable[[list[Row]], None], *, once: bool, until: threading.Event | None = None
    ) -> None:
        self._engine.changes(plan, show, once=once, until=until)

    def kept_basis(self, query_id: str) -> Basis | None:
        return self._engine.kept_basis(query_id)

    def insert(self, plan: QueryPlan) -> None:
        self._engine.insert(plan)

    def insert_documents(self, plan: QueryPlan, documents: list[bytes]) -> None:
        """Write rows that are JSON objects to the plan's sink."""
        self._engine.insert_documents(plan, documents)

    def process(self, plan: QueryPlan) -> Mapping[str, Any]:
        return self._engine.process(plan)

    def wait(self) -> None:
        self._engine.wait()

    def configure(self, name: str, value: str | None) -> None:
        self._engine.configure(name, value)

    def has_schema(self, subject: str, schema_id: int | None) -> bool:
        return self._engine.has_schema(subject, schema_id)
