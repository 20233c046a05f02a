"""Plans on Spark: views, one statement, a sink. With those of running/ the only module that imports pyspark.

A persistent query keeps position and state in `<checkpoints>/<query id>`, and writes through the sink, which adds each
micro-batch once (spark/exactly_once.py). A SELECT ... EMIT CHANGES starts again each time.

ANSI mode is off until close(): as in ksqlDB, an error in one record gives NULL and does not end the query."""

from __future__ import annotations

import json
import re
import tempfile
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import functions as F
from pyspark.sql.functions import udf

from odradek.errors import ErrorCode, KafkaError
from odradek.spark.available_now import latest_offsets, process_streams_available
from odradek.spark.exactly_once import exactly_once
from odradek.spark.jobs.latest import LatestTable
from odradek.spark.jobs.run import reason
from odradek.spark.jobs.streams import finish, summary
from odradek.spark.offsets import Ranges, ranges_document
from odradek.spark.slow_start import SlowStarts
from odradek.sql.functions.in_python import IN_PYTHON, PREFIX
from odradek.sql.plan import RESULT, Codec, Input, Maintained, QueryPlan
from odradek.sql.planning.own_functions import OWN
from odradek.sql.planning.undone import GONE
from odradek.sql.planning.upgrades import Basis
from odradek.sql.position import SqlError
from odradek.sql.running.checkpoint_files import CheckpointFiles
from odradek.sql.running.eager import KeptRecords
from odradek.sql.running.history import HistoryTable
from odradek.sql.running.maintained import CHANGED, OpenSessions, Written, compared, one_frame, session_end, without
from odradek.sql.running.observed import StreamTime, add_stream_time
from odradek.sql.running.own import register_own
from odradek.sql.running.positions import Positions
from odradek.sql.running.rows import change, shown_row
from odradek.sql.running.tombstones import without_needless
from odradek.sql.session import Row
from odradek.system import SystemClock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from odradek.ports.clock import Clock
    from odradek.sql.running.registered import RegistryAddress

WriteBatch = Callable[["DataFrame", int], None]

_COLUMNS = "key,value,timestamp,partition,offset"
_RECORDS = "key binary, value binary, timestamp timestamp, partition int, offset long"
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.legacy.codingErrorAction": "true",  # text that an encoding lacks is replaced, as by Java
    # Groups of a task in a hash table that keeps objects: beyond them Spark sorts the records; its default is 128.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "100000",
}
_IN_PYTHON = re.compile(rf"\b{PREFIX}\w+(?=\()")
_SOURCES_ADVICE = "set the option corruptBatches to skip, or to mark"
_INPUT = "__input"  # of a record that arrived: the number of its input, from 0
_KEY_ALONE = ("key", "CAST(NULL AS BINARY) AS value", "timestamp", "0 AS partition", "0L AS offset")
_LOOKED_UP = ("table", "history")  # inputs of a micro-batch that are not its stream
_WHOLE_BYTES = str(1 << 50)
_POLL_S = 0.2
_EMPTY_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"
_BASIS = "basis.json"  # in a checkpoint: what it belongs to (planning/upgrades.py)
_ROWS_MAX = 100_000  # per result on a screen


class SparkEngine:
    """Runs plans in a session.

    Args:
        store: options of every source: they locate the store, and may have corruptBatches.
        sink: options of the sink, without topic.
        checkpoints: folder of the persistent queries' checkpoints.
        stop: set to end the session.
        trigger: how often a running query looks for records.
        max_offsets_per_trigger: maximum number of records of a micro-batch.
        registry: of the formats with schemas; None: they cannot be used.
        clock: None: the machine's.
    """

    def __init__(
        self,
        spark: SparkSession,
        *,
        store: Mapping[str, str],
        sink: Mapping[str, str],
        checkpoints: str,
        stop: threading.Event,
        trigger: str = "1 second",
        max_offsets_per_trigger: int | None = None,
        registry: RegistryAddress | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._spark = spark
        self._clock = clock or SystemClock()
        self._before: dict[str, str | None] = {}
        for name, value in _SETTINGS.items():
            self.configure(name, value)
        self._store = dict(store)
        self._sink = dict(sink)
        self._checkpoints = checkpoints.rstrip("/")
        self._stop = stop
        self._trigger = trigger
        self._max_offsets = max_offsets_per_trigger
        self._running: dict[str, StreamingQuery] = {}
        self._plans: dict[str, tuple[QueryPlan, SlowStarts]] = {}  # of those that run
        self._registry = registry
        self._registered: set[tuple[str, str]] = set()  # session and function
        self._starting = threading.Lock()  # a query keeps the settings of its start
        self._planning = threading.Lock()  # views have the same names for all plans; a frame keeps what it found there

    # --- what the session asks for

    def rows(self, plan: QueryPlan) -> list[Row]:
        """Return the rows of a batch plan, at most 100,000."""
        with _translated(self._spark):
            with self._planning:
                sessions = OpenSessions(plan.maintained) if plan.maintained is not None else None
                frame = self._result(self._spark, plan, [self._batch(plan, each) for each in plan.inputs], sessions)
            return [shown_row(row) for row in frame.limit(plan.limit or _ROWS_MAX).collect()]

    def changes(
        self, plan: QueryPlan, show: Callable[[list[Row]], None], *, once: bool, until: threading.Event | None = None
    ) -> None:
        """Show rows as they arrive, up to the plan's limit, or until an event is set (None: the engine's stop)."""
        until = until or self._stop
        left = [plan.limit if plan.limit is not None else -1]
        done = threading.Event()

        def write(frame: DataFrame, _: int) -> None:
            if left[0] == 0:
                return
            found = (frame if left[0] < 0 else frame.limit(left[0])).collect()
            if left[0] > 0:
                left[0] -= len(found)
            if found:
                show([change(row) if plan.marks_deleted else shown_row(row) for row in found])
            if left[0] == 0:
                done.set()

        with tempfile.TemporaryDirectory(prefix="odradek-sql-") as folder, _translated(self._spark):

            def start(*streams: DataFrame) -> StreamingQuery:
                return self._begin(plan, list(streams), write, folder, once=once)

            if once:
                process_streams_available(self._spark, self._sources(plan), start)
                return
            slow_starts = SlowStarts(plan.query_id)
            query = start(*self._streams(plan))
            try:
                while not (until.is_set() or done.wait(_POLL_S)):
                    if not query.isActive:
                        if not slow_starts.may_start_again(query.exception() or ""):
                            break
                        query = start(*self._streams(plan))
                _raise_failure(query)
            finally:
                query.stop()

    def insert(self, plan: QueryPlan) -> None:
        """Write a batch plan's rows: all or none."""
        assert plan.sink is not None
        with _translated(self._spark):
            with self._planning:
                records = self._frame(self._spark, plan, [])
            records.write.format("odradek").mode("append").options(**self._sink, topic=plan.sink.topic.name).save()

    def insert_documents(self, plan: QueryPlan, documents: list[bytes]) -> None:
        """Write rows, each a JSON object that the plan's one input reads, to the sink: all or none."""
        assert plan.sink is not None
        rows = [(None, each, None, 0, offset) for offset, each in enumerate(documents)]
        with _translated(self._spark):
            with self._planning:
                records = self._frame(self._spark, plan, [self._spark.createDataFrame(rows, _RECORDS)])
            records.write.format("odradek").mode("append").options(**self._sink, topic=plan.sink.topic.name).save()

    def process(self, plan: QueryPlan) -> Mapping[str, Any]:
        """Run a persistent query until everything that exists is processed."""
        with _translated(self._spark):
            return summary(process_streams_available(self._spark, self._sources(plan), self._starter(plan, once=True)))

    def start(self, plan: QueryPlan) -> None:
        """Start a persistent query."""
        with _translated(self._spark):
            self._running[plan.query_id] = self._starter(plan, once=False)(*self._streams(plan))
        self._plans.setdefault(plan.query_id, (plan, SlowStarts(plan.query_id)))

    def stop(self, query_id: str) -> None:
        """Stop a query after its micro-batch."""
        self._plans.pop(query_id, None)
        query = self._running.pop(query_id, None)
        if query is not None:
            finish(query)

    def forget(self, query_id: str) -> None:
        """Remove the checkpoint of a query that does not run, if there is one."""
        with _translated(self._spark):
            CheckpointFiles(self._spark, self._checkpoints).delete(query_id)

    def kept_basis(self, query_id: str) -> Basis | None:
        """Return what the checkpoint of a query belongs to; None if there is none, or if it does not say."""
        with _translated(self._spark):
            data = CheckpointFiles(self._spark, self._checkpoints).read(f"{query_id}/{_BASIS}")
        return None if data is None else Basis.parse(data)

    def failure(self, query_id: str) -> str | None:
        """Return why a started query no longer runs, None while it runs."""
        query = self._running.get(query_id)
        if query is None or query.isActive:
            return None
        failed = query.exception()
        return "the query ended" if failed is None else _reason(failed)

    def wait(self) -> None:
        """Wait until a stop is requested, no query runs, or one fails; then stop all."""
        try:
            with _translated(self._spark):
                while self._running and not self._stop.wait(_POLL_S):
                    for query_id, query in list(self._running.items()):
                        plan, slow_starts = self._plans[query_id]
                        if query.isActive:
                            continue
                        if slow_starts.may_start_again(query.exception() or ""):
                            self.start(plan)
                            continue
                        del self._running[query_id]
                        _raise_failure(query)
        finally:
            for query_id in list(self._running):
                self.stop(query_id)

    def configure(self, name: str, value: str | None) -> None:
        """Set a property of Spark for later queries."""
        with _translated(self._spark):
            self._before.setdefault(name, self._spark.conf.get(name, None))
            if value is None:
                self._spark.conf.unset(name)
            else:
                self._spark.conf.set(name, value)

    def has_schema(self, subject: str, schema_id: int | None) -> bool:
        """Return True if the registry has the subject, and the schema."""
        if self._registry is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, "ASSERT SCHEMA needs a schema registry: --schema-registry URL")
        registry = self._registry.open()
        try:
            found = registry.at(subject, None)[0] if subject else None
            if schema_id is not None:
                registry.schema(schema_id)
        except KafkaError as error:
            if error.code is ErrorCode.INVALID_RECORD:
                return False
            raise
        return not subject or schema_id is None or found == schema_id

    def close(self) -> None:
        """Stop running queries, and restore the session's settings."""
        for query_id in list(self._running):
            self.stop(query_id)
        for name, value in self._before.items():
            if value is None:
                self._spark.conf.unset(name)
            else:
                self._spark.conf.set(name, value)

    def running(self) -> list[StreamingQuery]:
        """Return the running queries."""
        return list(self._running.values())

    # --- from plans to frames

    def _starter(self, plan: QueryPlan, *, once: bool) -> Callable[..., StreamingQuery]:
        assert plan.sink is not None
        write = exactly_once({**self._sink, "topic": plan.sink.topic.name})
        if plan.basis is not None and plan.basis != self.kept_basis(plan.query_id):
            CheckpointFiles(self._spark, self._checkpoints).write(f"{plan.query_id}/{_BASIS}", plan.basis.document())

        def start(*streams: DataFrame) -> StreamingQuery:
            return self._begin(plan, list(streams), write, f"{self._checkpoints}/{plan.query_id}", once=once)

        return start

    def _begin(
        self, plan: QueryPlan, streams: list[DataFrame], write: WriteBatch, checkpoint: str, *, once: bool
    ) -> StreamingQuery:
        """Start a query. One that joins tables reads its stream and does the rest in each micro-batch."""
        if plan.maintained is not None:
            frame = one_frame(streams)
            write = self._maintain(plan, write)
        elif plan.eager is not None:
            one, other = (each.withColumn(_INPUT, F.lit(number)) for number, each in enumerate(streams))
            frame = one.unionByName(other, allowMissingColumns=True)
            write = self._join_eagerly(plan, write, checkpoint)
        elif any(each.read in _LOOKED_UP for each in plan.inputs):
            [frame] = streams
            write = self._with_tables(plan, write)
        else:
            stream_time = StreamTime(self._spark, checkpoint, self._clock.now_ms)
            with self._planning:
                frame = self._frame(self._spark, plan, streams, stream_time)
            if plan.has_having and plan.sink is not None:
                write = without_needless(write, partial(self._latest, plan=plan, topic=plan.sink.topic.name))
            if plan.by_time:
                write = _in_order(write)
            if any(each.observed for each in plan.inputs):
                write = stream_time.around(write)
        writer = frame.writeStream.queryName(plan.query_id).outputMode(plan.output_mode).foreachBatch(write)
        writer = writer.option("checkpointLocation", checkpoint)
        writer = writer.trigger(**({"availableNow": True} if once else {"processingTime": self._trigger}))
        with self._starting:
            # Where rows are written when they change, one more micro-batch after each with data would only drop state
            # of closed windows, at the cost of the one before; the next with data does that as well.
            self.configure(_EMPTY_BATCHES, "false" if plan.output_mode == "update" else "true")
            return writer.start()

    def _with_tables(self, plan: QueryPlan, write: WriteBatch) -> WriteBatch:
        """Return a function that joins a micro-batch with the tables as they are then, and writes the result.

        A frame of a Python source never changes after its first read, so a plain join would see only its first state.
        """
        tables: dict[str, LatestTable] = {}

        def write_joined(records: DataFrame, batch_id: int) -> None:
            session = records.sparkSession
            frames = []
            for each in plan.inputs:
                if each.read in _LOOKED_UP and each.view not in tables:
                    tables[each.view] = self._looked_up(session, plan, each)
                frames.append(tables[each.view].now() if each.read in _LOOKED_UP else records)
            write(self._frame(session, plan, frames), batch_id)

        return write_joined

    def _join_eagerly(self, plan: QueryPlan, write: WriteBatch, checkpoint: str) -> WriteBatch:
        """Return a function that writes what the records of a micro-batch are joined with (running/eager.py)."""
        assert plan.eager is not None
        kept = KeptRecords(plan.eager)

        def write_joined(records: DataFrame, batch_id: int) -> None:
            session = records.sparkSession
            positions = Positions(session, checkpoint)
            if batch_id == 0:
                positions.began()
            elif kept.batch_id != batch_id - 1:
                there = zip(plan.inputs, positions.ranges_before(batch_id), strict=True)
                before = [self._columns(session, each, self._within(session, plan, each, r)) for each, r in there]
                kept.restore(before, batch_id - 1)
            elif kept.has_fewer:
                positions.kept_before(batch_id, kept.starts())
                kept.has_fewer = False
            arrived = records.localCheckpoint(eager=True)
            frames = [arrived.where(F.col(_INPUT) == number) for number in range(len(plan.inputs))]
            result = self._joined(session, plan, frames, kept)
            write(result if plan.sink is None else self._records(session, plan, result), batch_id)
            kept.keep(batch_id)

        return write_joined

    def _joined(self, session: SparkSession, plan: QueryPlan, frames: list[DataFrame], kept: KeptRecords) -> DataFrame:
        """Return the rows that records of both inputs make when they arrive."""
        fresh = [self._columns(session, each, frame) for each, frame in zip(plan.inputs, frames, strict=True)]
        for each, rows in zip(plan.inputs, kept.arrive(fresh), strict=True):
            rows.createOrReplaceTempView(each.view)
        self._register(session, plan.sql, ())
        return session.sql(plan.sql)

    def _within(self, session: SparkSession, plan: QueryPlan, given: Input, ranges: Ranges) -> DataFrame:
        """Return the records of an input between offsets."""
        options = self._options(plan, given.topic, headers=given.has_headers)
        if not ranges:
            headers = ", headers array<struct<key string, value binary>>" if given.has_headers else ""
            return session.createDataFrame([], _RECORDS + headers)
        del options["subscribe"]
        options |= {"ranges": json.dumps(ranges_document(ranges)), "failOnDataLoss": "false"}
        return session.read.format("odradek").options(**options).load()

    def _maintain(self, plan: QueryPlan, write: WriteBatch) -> WriteBatch:
        """Return a function that writes what a micro-batch changes in a maintained result (maintained.py)."""
        maintained = plan.maintained
        assert maintained is not None
        tables: list[LatestTable] = []
        sessions = OpenSessions(maintained) if maintained.session_ms else None
        shown: list[DataFrame] = []
        written: list[Written] = []

        def write_changes(arrived: DataFrame, batch_id: int) -> None:
            session = arrived.sparkSession
            [newest] = arrived.agg(F.max("timestamp").alias("t")).collect()
            at = F.lit(newest["t"]).cast("timestamp")
            if not tables:
                tables.extend(
                    self._latest(session, plan, each.topic, has_headers=each.has_headers) for each in plan.inputs
                )
            frames = [each.now() if sessions is None else each.fresh() for each in tables]
            result = self._result(session, plan, frames, sessions)
            if plan.sink is None:
                rows = result.localCheckpoint(eager=True)
                write(rows if not shown else rows.exceptAll(shown[0]), batch_id)
                shown[:] = [rows]
                return
            if not written:
                written.append(Written(self._latest(session, plan, plan.sink.topic.name)))
            before = written[0].rows()
            now = self._records(session, plan, result).where(F.col("key").isNotNull())
            if maintained.groups is not None:
                now = now.localCheckpoint(eager=True)
                now = now.unionByName(self._undone(session, plan, without(before, now).withColumn("timestamp", at)))
            closed = None
            if sessions is not None:
                cut = sessions.stream_time() - sessions.late_ms
                closed = session_end(F.col("k")) < F.lit(cut)
            found = compared(before, now, at, closed).localCheckpoint(eager=True)
            if sessions is not None:
                self._prune(session, maintained, sessions)
            write(found.where(CHANGED).drop(CHANGED), batch_id)
            written[0].wrote(found.where("value IS NOT NULL").drop(CHANGED))

        return write_changes

    def _undone(self, session: SparkSession, plan: QueryPlan, gone: DataFrame) -> DataFrame:
        """Return the records of groups without rows that stay. Args: gone: their keys, with the time of the change."""
        assert plan.maintained is not None
        assert plan.maintained.groups is not None
        records = gone.selectExpr(*_KEY_ALONE)
        self._columns(session, plan.maintained.groups, records).createOrReplaceTempView(GONE)
        self._register(session, plan.maintained.undone, ())
        return self._records(session, plan, session.sql(plan.maintained.undone))

    def _prune(self, session: SparkSession, maintained: Maintained, sessions: OpenSessions) -> None:
        def open_rows(rows: DataFrame, cut: int) -> DataFrame:
            rows.createOrReplaceTempView("input_1")
            return session.sql(maintained.open_rows, args={"cut": cut})

        sessions.prune(open_rows)

    def _frame(
        self, session: SparkSession, plan: QueryPlan, frames: list[DataFrame], stream_time: StreamTime | None = None
    ) -> DataFrame:
        """Return the result or, with a sink, its records."""
        result = self._result(session, plan, frames, stream_time=stream_time)
        return result if plan.sink is None else self._records(session, plan, result)

    def _result(
        self,
        session: SparkSession,
        plan: QueryPlan,
        frames: list[DataFrame],
        sessions: OpenSessions | None = None,
        stream_time: StreamTime | None = None,
    ) -> DataFrame:
        for number, (each, frame) in enumerate(zip(plan.inputs, frames, strict=True)):
            columns = self._columns(session, each, frame)
            if sessions is not None:
                columns = sessions.add(columns)
            if each.observed:
                timed = stream_time if columns.isStreaming else None
                columns = add_stream_time(columns) if timed is None else timed.add(each, number, columns)
                columns.createOrReplaceTempView(each.observed)
                columns = session.sql(each.on_time)
                columns = columns if timed is None else timed.under_watermark(each, columns)
            columns.createOrReplaceTempView(each.view)
        self._register(session, plan.sql, ())
        return session.sql(plan.sql)

    def _columns(self, session: SparkSession, given: Input, records: DataFrame) -> DataFrame:
        """Return the columns of an input's records."""
        records.createOrReplaceTempView(given.records)
        self._register(session, given.sql, given.codecs)
        return session.sql(given.sql)

    def _register(self, session: SparkSession, sql: str, codecs: tuple[Codec, ...]) -> None:
        """Register the functions in Python that a statement names."""
        for codec in codecs:
            from odradek.sql.running.registered import reader, row_type, writer

            reads = codec.function.startswith("ksql_read_")
            codes: Callable[..., object] = reader(codec, self._registry) if reads else writer(codec, self._registry)
            kind = row_type(codec) if reads else "BINARY"
            session.udf.register(codec.function, udf(codes, kind, useArrow=False))
        for name in dict.fromkeys(_IN_PYTHON.findall(sql)):
            if name in IN_PYTHON and (_identity(session), name) not in self._registered:
                function, kind = IN_PYTHON[name]
                session.udf.register(name, udf(function, kind, useArrow=False))
                self._registered.add((_identity(session), name))
            elif name in OWN:
                register_own(session, name, OWN[name])

    def _records(self, session: SparkSession, plan: QueryPlan, result: DataFrame) -> DataFrame:
        assert plan.sink is not None
        result.createOrReplaceTempView(RESULT)
        self._register(session, plan.sink.sql, plan.sink.codecs)
        return session.sql(plan.sink.sql)

    def _sources(self, plan: QueryPlan) -> list[dict[str, str]]:
        more = {"startingOffsets": plan.starting_offsets}
        if self._max_offsets is not None:
            more["maxOffsetsPerTrigger"] = str(self._max_offsets)
        if plan.maintained is not None:
            return [self._options(plan, each) | more for each in dict.fromkeys(each.topic for each in plan.inputs)]
        inputs = [each for each in plan.inputs if each.read == "stream"]
        found = []
        for each in inputs:
            whole = {"rangeBytes": _WHOLE_BYTES} if each.observed else {}  # one task reads a partition, in order
            found.append(self._options(plan, each.topic, headers=each.has_headers) | more | whole)
        return found

    def _options(self, plan: QueryPlan, topic: str, *, headers: bool = False) -> dict[str, str]:
        how = {"corruptBatches": plan.corrupt_batches} if plan.corrupt_batches else {}
        return {**self._store, **how, "subscribe": topic, "columns": f"{_COLUMNS},headers" if headers else _COLUMNS}

    def _latest(self, session: SparkSession, plan: QueryPlan, topic: str, *, has_headers: bool = False) -> LatestTable:
        return LatestTable(session, self._options(plan, topic), has_headers=has_headers)

    def _looked_up(self, session: SparkSession, plan: QueryPlan, given: Input) -> LatestTable:
        """Return the table of an input that is not a micro-batch's stream."""
        if given.read != "history":
            return self._latest(session, plan, given.topic, has_headers=given.has_headers)
        options = self._options(plan, given.topic)
        return HistoryTable(session, options, given.history_ms, has_headers=given.has_headers)

    def _streams(self, plan: QueryPlan) -> list[DataFrame]:
        """Return the streams of a query that runs on. `latest` is the end now, not that of its first micro-batch."""
        found = []
        for options in self._sources(plan):
            if options["startingOffsets"] == "latest":
                options["startingOffsets"] = latest_offsets(options)
            found.append(self._spark.readStream.format("odradek").options(**options).load())
        return found

    def _batch(self, plan: QueryPlan, given: Input) -> DataFrame:
        options = self._options(plan, given.topic, headers=given.has_headers) | {"startingOffsets": "earliest"}
        return self._spark.read.format("odradek").options(**options).load()


def _in_order(write: WriteBatch) -> WriteBatch:
    """Return a function that writes the records of a micro-batch in the order of their times."""
    return lambda records, batch_id: write(by_time(records), batch_id)


def by_time(records: DataFrame) -> DataFrame:
    """Return joined records in the order of their times: Spark joins the rows of a micro-batch in any order.

    Records of one key are in one partition of the frame, so no records have to move.
    """
    return records.sortWithinPartitions("timestamp")


def _identity(session: SparkSession) -> str:
    """Return what tells a session from others; each micro-batch has a Python object of its own for it."""
    return str(session._jsparkSession.sessionUUID())


def _raise_failure(query: StreamingQuery) -> None:
    failure = query.exception()
    if failure is not None:
        raise failure


class _translated:
    """Converts Spark's errors to one-line SqlErrors; the session adds the statement's position.

    Inside of it the session is the thread's active one, without which a write does not find the sink.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def __enter__(self) -> None:
        jvm: Any = self._spark._jvm
        self._spark._get_j_spark_session_class(jvm).setActiveSession(self._spark._jsparkSession)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, KafkaError):
            return
        if isinstance(error, StreamingQueryException):
            raise SqlError(f"the query failed: {_reason(error)}", code=ErrorCode.UNKNOWN_SERVER_ERROR) from None
        if isinstance(error, PySparkException):
            raise SqlError(f"Spark rejects the statement: {_reason(error)}") from None
        if isinstance(error, Py4JError):
            raise SqlError(f"Spark failed: {reason(error)}", code=ErrorCode.UNKNOWN_SERVER_ERROR) from None


def _reason(error: PySparkException) -> str:
    """Return the cause in one line; the source's advice to set an option in the words of a script."""
    return reason(error).replace(_SOURCES_ADVICE, "SET 'corrupt.batches' = 'skip' in the script")
