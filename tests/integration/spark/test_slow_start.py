"""Spark waits ten seconds for the Python of a source: a query whose Python took longer is started again, and says so.

Slow: each Python that is too slow takes these ten seconds.
"""

from __future__ import annotations

import logging
import shlex
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import odradek.spark
import pytest
from odradek.spark.available_now import process_available
from odradek.spark.workers import python
from odradek.sql.on_spark import SparkEngine
from odradek.sql.plan import QueryPlan, Started
from odradek.sql.session import Row, check

from tests.support.spark.sink import ServedLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SOURCES_PYTHON = "pyspark.sql.streaming.python_streaming_source_runner"
SCRIPT = """
CREATE STREAM s (k VARCHAR KEY, n INT) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON', PARTITIONS = 1);
INSERT INTO s VALUES ('a', 1), ('b', 2);
CREATE STREAM more AS SELECT k, n + 1 AS n FROM s;
SELECT k, n FROM s EMIT CHANGES LIMIT 2;
"""


@pytest.fixture
def slow(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Make the next Python of a source take too long."""
    context = spark.sparkContext
    usual, program, mark = context.pythonExec, tmp_path / "python", tmp_path / "slow"
    program.write_text(
        f'#!/bin/sh\ncase "$*" in *{SOURCES_PYTHON}*) rm {mark} 2> /dev/null && exec sleep 12;; esac\n'
        f'exec {shlex.quote(usual)} "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(python, "missing", lambda _: "")
    context.pythonExec = str(program)
    odradek.spark.register(spark)
    yield mark.touch
    context.pythonExec = usual
    odradek.spark.register(spark)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.mark.slow
def test_jobs_scripts_and_push_queries_start_again(
    spark: SparkSession, tmp_path: Path, slow: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    """Slow: Spark waits for ten seconds three times."""
    shown: list[Row] = []
    with ServedLog(tmp_path / "store") as log:
        log.create("s")
        log.create("MORE")
        stop = threading.Event()
        engine = SparkEngine(
            spark, store={"store": log.source["store"]}, sink=log.sink, checkpoints=str(tmp_path / "sql"), stop=stop,
            trigger="100 milliseconds",
        )  # fmt: skip
        _, inserted, started, selected = (statement.action for statement in check([("", SCRIPT)]))
        engine.insert(inserted.plan)  # type: ignore[union-attr]

        slow()
        progress = count(spark, log, tmp_path)
        assert sum(batch_progress["numInputRows"] for batch_progress in progress) == 2
        assert len(warnings(caplog)) == 1
        assert "did not answer in time" in warnings(caplog)[0]
        assert "start 2 of 5" in warnings(caplog)[0]

        slow()
        plan: QueryPlan = selected.plan  # type: ignore[union-attr]
        engine.changes(plan, lambda rows: shown.extend(rows), once=False)
        assert sorted(shown) == [("a", 1), ("b", 2)]
        assert len(warnings(caplog)) == 2

        assert isinstance(started, Started)
        slow()
        engine.start(started.plan)
        waiting = threading.Thread(target=engine.wait)
        waiting.start()
        while len(log.records("MORE")[0]) < 2 and waiting.is_alive():
            stop.wait(0.2)
        stop.set()
        waiting.join()
        assert len(log.records("MORE")[0]) == 2
        assert warnings(caplog)[2].startswith("CSAS_MORE: ")
        engine.close()


def count(spark: SparkSession, log: ServedLog, folder: Path) -> list[dict[str, object]]:
    """Count as a job does with `--once`."""

    def start(stream: DataFrame) -> object:
        writer = stream.writeStream.format("noop").option("checkpointLocation", str(folder / "noop"))
        return writer.trigger(availableNow=True).start()

    return process_available(spark, {**log.source, "subscribe": "s"}, start)  # type: ignore[arg-type]
