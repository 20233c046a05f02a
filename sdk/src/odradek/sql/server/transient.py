"""Queries of requests: pull queries end with the present rows, push queries with their client, LIMIT or /close-query.

    engine's thread ──rows──> a queue of bounded length ──> the response

A client that reads slowly holds up its own query and nothing else.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import asynccontextmanager
from dataclasses import replace

from odradek.errors import ErrorCode, KafkaError
from odradek.sql.plan import QueryPlan
from odradek.sql.server.errors import TOO_MANY_PUSH_QUERIES, TOO_MANY_REQUESTS, RestError
from odradek.sql.server.supervisor import Engine
from odradek.sql.session import Row

_QUEUED = 16  # lots of rows between a query and its response
_POLL_S = 0.2


class PushQuery:
    """A query that runs until it is stopped."""

    def __init__(self, engine: Engine, plan: QueryPlan, text: str) -> None:
        self.query_id, self.text = plan.query_id, text
        self._engine = engine
        self._plan = plan
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[list[Row] | KafkaError | None] = asyncio.Queue(_QUEUED)
        self._until = threading.Event()
        self._thread = threading.Thread(target=self._run, name=plan.query_id, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Let the query end."""
        self._until.set()

    async def rows(self) -> AsyncIterator[list[Row]]:
        """Yield rows until the query ends. Raises KafkaError if it failed."""
        while True:
            found = await self._queue.get()
            if found is None:
                return
            if isinstance(found, KafkaError):
                raise found
            yield found

    def _run(self) -> None:
        try:
            self._engine.changes(self._plan, self._put, once=False, until=self._until)
            self._put(None)
        except KafkaError as error:
            self._put(error)
        except Exception as error:  # a bug, or Spark's context is gone: the client must not wait for ever
            self._put(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the query failed: {type(error).__name__}"))

    def _put(self, found: list[Row] | KafkaError | None) -> None:
        """Hand over to the response; waits while it has too much, unless the query is to end."""
        waiting = asyncio.run_coroutine_threadsafe(self._queue.put(found), self._loop)
        while True:
            try:
                waiting.result(_POLL_S)
                return
            except NotYet:
                if self._until.is_set() and found is not None:
                    waiting.cancel()
                    return


class Transients:
    """The queries of requests that run now.

    Args:
        push_max, pull_max: how many of each at a time.
    """

    def __init__(self, engine: Engine, *, push_max: int, pull_max: int) -> None:
        self._engine = engine
        self._push_max = push_max
        self._pull_max = pull_max
        self._pushes: dict[str, PushQuery] = {}
        self._pulls = 0
        self._pool = ThreadPoolExecutor(pull_max, thread_name_prefix="sql-pull")

    @asynccontextmanager
    async def push(self, plan: QueryPlan, text: str) -> AsyncIterator[PushQuery]:
        """Run a push query inside of the block. Raises RestError if too many run. Args: text: its statement."""
        if len(self._pushes) >= self._push_max:
            raise RestError(
                TOO_MANY_PUSH_QUERIES,
                f"{self._push_max} push queries run already, the limit of this server (--push-queries): end one first",
            )
        # An id of its own: Spark runs no two queries of one name, and two clients may ask for the same.
        query_id = f"transient_{plan.query_id}_{secrets.randbits(63)}"
        query = PushQuery(self._engine, replace(plan, query_id=query_id), text)
        self._pushes[query.query_id] = query
        query.start()
        try:
            yield query
        finally:
            query.stop()
            self._pushes.pop(query.query_id, None)

    async def pull(self, plan: QueryPlan) -> list[Row]:
        """Return the rows of a pull query. Raises KafkaError, RestError if too many run."""
        if self._pulls >= self._pull_max:
            raise RestError(
                TOO_MANY_REQUESTS,
                f"{self._pull_max} pull queries run already, the limit of this server (--pull-queries): ask again",
            )
        self._pulls += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, self._engine.rows, plan)
        finally:
            self._pulls -= 1

    def pushed(self) -> dict[str, str]:
        """Return the statement of each push query that runs, by id."""
        return {query_id: query.text for query_id, query in list(self._pushes.items())}

    def close_query(self, query_id: str) -> bool:
        """End a push query; return False for an unknown one."""
        query = self._pushes.get(query_id)
        if query is not None:
            query.stop()
        return query is not None

    def close(self) -> None:
        """End all."""
        for query in list(self._pushes.values()):
            query.stop()
        self._pool.shutdown(wait=False, cancel_futures=True)
