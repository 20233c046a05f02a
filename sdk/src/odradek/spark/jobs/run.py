"""A job as a process: arguments, session, signals, and one line at the end: a JSON summary, or the error.

SIGTERM and SIGINT ask the job to stop: the current micro-batch is finished, up to a time limit, and the next run
continues from the checkpoint. A second signal ends the process at once, which loses nothing: the micro-batch is run
again.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from odradek.child_process import end_with_parent
from odradek.errors import OdradekError
from odradek.spark.jobs.arguments import A, StoreArguments, StreamArguments, parse_arguments
from odradek.spark.workers.python import NO_ODRADEK, workers_lack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Stop = threading.Event
_STATE_STORES = {
    "rocksdb": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "memory": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
}


def run_job(
    name: str,
    arguments_class: type[A],
    work: Callable[[SparkSession, A, Stop], dict[str, Any]],
    argv: Sequence[str] | None,
    *,
    description: str = "",
) -> int:
    """Run a job and return its exit code, for the job's `main`.

    Args:
        name: of the job's folder.
        arguments_class: its arguments.
        work: the job: returns a summary, and ends soon after the event is set.
        argv: the arguments; None: the process's.
    """
    from pyspark.errors import PySparkException

    end_with_parent(os.environ)
    try:
        arguments = parse_arguments(
            arguments_class, sys.argv[1:] if argv is None else argv, prog=name, description=description
        )
        with stopping_signals() as stop, _ending(make_session(arguments, name)) as spark:
            summary = work(spark, arguments, stop)
    except (OdradekError, PySparkException, OSError) as error:
        print(f"{name}: {reason(error)}", file=sys.stderr)
        return 1
    print(json.dumps(summary), flush=True)
    return 0


def make_session(arguments: StoreArguments, name: str) -> SparkSession:
    """Return a session in UTC with source and sink registered. Raises OdradekError for an unknown state store."""
    from pyspark.sql import SparkSession

    import odradek.spark

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers must use this Python, whatever is on the PATH
    builder = (
        SparkSession.builder.appName(arguments.JOB_NAME or name)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", str(arguments.shuffle_partitions))
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    )
    if isinstance(arguments, StreamArguments):
        builder = builder.config("spark.sql.streaming.stateStore.providerClass", _provider(arguments.state_store))
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    odradek.spark.register(spark)
    return spark


def _provider(state_store: str) -> str:
    from odradek.errors import ErrorCode, KafkaError

    if state_store not in _STATE_STORES:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"--state-store must be {' or '.join(_STATE_STORES)}")
    return _STATE_STORES[state_store]


@contextmanager
def _ending(spark: SparkSession) -> Iterator[SparkSession]:
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def stopping_signals() -> Iterator[Stop]:
    """Yield an event that SIGTERM and SIGINT set; a second signal has its usual effect."""
    stop = Stop()
    before: dict[int, Any] = {}

    def asked(number: int, _: object) -> None:
        stop.set()
        signal.signal(number, before[number])

    if threading.current_thread() is threading.main_thread():
        before |= {number: signal.signal(number, asked) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def reason(error: BaseException) -> str:
    """Return one line for an error: Spark wraps a source's message in pages of stack trace."""
    text = str(error)
    if NO_ODRADEK in text:
        return workers_lack(os.environ.get("PYSPARK_PYTHON") or "python3", "which has no odradek")
    own = re.findall(r"odradek\.errors\.\w+: (.+)", text)
    return str(own[-1]) if own else (text.strip().splitlines() or [type(error).__name__])[0]
