"""Bounds of a query of the console: it ends when it is stopped, and has no more rows and memory than it may."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from odradek.console.settings import ConsoleSettings
from odradek.console.state import ConsoleState
from odradek.errors import ErrorCode, KafkaError
from odradek.operations.cluster import Cluster
from odradek.operations.query.query_bounds import QueryBounds
from odradek.operations.query.run import run_query
from odradek.operations.storage import StorePlace
from odradek.system import SystemClock

ENDLESS = "SELECT count(*) FROM range(100000000000000) t(a) WHERE a % 7 = 3"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import odradek

    made = tmp_path_factory.mktemp("store")
    with odradek.local(made):
        pass
    return made


def test_an_answer_has_no_more_rows_than_it_may(folder: Path) -> None:
    bounds = QueryBounds(1 << 28, 100_000)
    assert run_query("SELECT * FROM range(1000)", folder, bounds=bounds).table.num_rows == 1_000
    with pytest.raises(KafkaError, match="more than 100,000 rows: add LIMIT") as refused:
        run_query("SELECT * FROM range(10000000)", folder, bounds=QueryBounds(1 << 28, 100_000))
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_a_query_has_no_more_memory_than_it_may(folder: Path) -> None:
    large = "SELECT count(*) FROM (SELECT a, md5(a::VARCHAR) AS b FROM range(5000000) t(a) ORDER BY b LIMIT 4999999)"
    with pytest.raises(KafkaError, match=r"[Mm]emory"):
        run_query(large, folder, bounds=QueryBounds(16 * 1024 * 1024, 10))


def test_a_query_that_was_stopped_before_it_began_does_not_run(folder: Path) -> None:
    bounds = QueryBounds(1 << 28, 10)
    bounds.stop()
    with pytest.raises(KafkaError) as refused:
        run_query(ENDLESS, folder, bounds=bounds)
    assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT


def running() -> int:
    return sum(thread.name.startswith("console-query") for thread in threading.enumerate())


async def test_queries_that_are_over_run_no_more_and_take_no_thread_of_others(folder: Path) -> None:
    ended: list[Any] = []
    cluster = Cluster({"bootstrap_servers": "http://127.0.0.1:1"}, StorePlace.of_folder(folder))
    state = ConsoleState(cluster, ConsoleSettings(), SystemClock())

    async def ask() -> None:
        with pytest.raises(KafkaError) as refused:
            await state.query(ENDLESS, 0.5)
        ended.append(refused.value.code)

    await asyncio.gather(*(ask() for _ in range(8)))
    assert ended == [ErrorCode.REQUEST_TIMED_OUT] * 8
    result = await state.query("SELECT 1 AS a", 60)
    assert result.table.to_pylist() == [{"a": 1}]
    left = asyncio.ensure_future(state.query(ENDLESS, 600))
    await asyncio.sleep(0.3)
    left.cancel()
    with pytest.raises(asyncio.CancelledError):
        await left
    await asyncio.to_thread(state.close)
    for _ in range(200):
        if not running():
            break
        await asyncio.sleep(0.05)
    assert running() == 0
