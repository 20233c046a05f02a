"""Runs a case of stream SQL on Spark: records of input topics in, a script, records of its topics out.

Topics are lists in this process. Each persistent query runs once, as Spark's batch of the same plan: the same Spark SQL
on the same records as one micro-batch, without the second that it takes to start a streaming query. Those that wait for
stream time (EMIT FINAL, joins of streams) run as streams over files, and with `cuts` all that know stream time do, in
several micro-batches. A case may ask for a micro-batch for each record of a table that is maintained. What depends on
the service is in tests/integration/sql.

A key or a value is written in a case as data: what JSON says of it, or a text for DELIMITED. The formats of a topic are
those of the stream or table that the script declares over it.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import struct
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odradek.spark.jobs.latest import latest_per_key
from odradek.sql.catalog import REGISTERED, Source
from odradek.sql.on_spark import SparkEngine, by_time
from odradek.sql.parse import parse
from odradek.sql.plan import Codec, QueryPlan, Started
from odradek.sql.plan import Input as PlanInput
from odradek.sql.running.eager import KeptRecords
from odradek.sql.running.maintained import CHANGED, OpenSessions, compared, session_end
from odradek.sql.running.registered import RegistryAddress, columns_of, reader, writer
from odradek.sql.running.rows import shown_row
from odradek.sql.script import Planner
from odradek.sql.session import Row, Session, Step
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RECORDS = (
    "key binary, value binary, timestamp timestamp, partition int, offset long, "
    "headers array<struct<key string, value binary>>"
)


@dataclass
class Record:
    """A record of a topic."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    partition: int = 0
    headers: list[tuple[str, bytes | None]] | None = None
    number: int = 0  # in the order of all records that arrived


@dataclass
class Outcome:
    """The results of a script."""

    planner: Planner
    topics: dict[str, list[Record]]
    said: list[str] = field(default_factory=list)
    results: list[list[dict[str, Any]]] = field(default_factory=list)


class MemoryEngine(SparkEngine):
    """Runs plans over topics in memory."""

    def __init__(
        self,
        spark: SparkSession,
        registry: RegistryAddress | None = None,
        *,
        one_by_one: bool = False,
        cuts: Sequence[int] = (),
    ) -> None:
        super().__init__(spark, store={}, sink={}, checkpoints="", stop=threading.Event(), registry=registry)
        self.topics: dict[str, list[Record]] = {}
        self._one_by_one = one_by_one
        self._arrived: int | None = None  # the last record that has; None: all have
        self._cuts = cuts

    def kept_basis(self, query_id: str) -> None:
        return None

    def _batch(self, plan: QueryPlan, given: PlanInput) -> DataFrame:
        return self.records(given.topic)

    def records(self, topic: str, *, is_result: bool = False, session: SparkSession | None = None) -> DataFrame:
        rows = [
            (each.key, each.value, datetime.fromtimestamp(each.timestamp_ms / 1000, UTC), each.partition, offset,
             each.headers or [])
            for offset, each in enumerate(self.topics.get(topic, []))
            if is_result or self._arrived is None or each.number <= self._arrived
        ]  # fmt: skip
        return (session or self._spark).createDataFrame(rows, _RECORDS)

    def _latest(self, session: SparkSession, plan: QueryPlan, topic: str, *, has_headers: bool = False) -> Any:
        return _Latest(self, topic, is_result=plan.sink is not None and plan.sink.topic.name == topic)

    def _maintain_one_by_one(self, plan: QueryPlan) -> None:
        """Run a micro-batch for each record."""
        write = self._maintain(plan, lambda records, _: self._append(plan, records))
        topics = dict.fromkeys(each.topic for each in plan.inputs)
        for number, each in enumerate(sorted((r for t in topics for r in self.topics[t]), key=lambda r: r.number)):
            self._arrived = each.number
            time = datetime.fromtimestamp(each.timestamp_ms / 1000, UTC)
            write(self._spark.createDataFrame([(time,)], "timestamp timestamp"), number)
        self._arrived = None

    def process(self, plan: QueryPlan) -> Mapping[str, Any]:
        if self._one_by_one and plan.maintained is not None and not plan.maintained.session_ms:
            self._maintain_one_by_one(plan)
            return {}
        if any(each.observed for each in plan.inputs) and (plan.output_mode == "append" or self._cuts):
            self._process_as_stream(plan)
            return {}
        if plan.maintained and plan.maintained.session_ms and self._cuts:
            self._process_sessions(plan)
            return {}
        frames = [self._batch(plan, each) for each in plan.inputs]
        if plan.eager is not None:
            result = self._joined(self._spark, plan, frames, KeptRecords(plan.eager))
        else:
            sessions = OpenSessions(plan.maintained) if plan.maintained and plan.maintained.session_ms else None
            result = self._result(self._spark, plan, frames, sessions)
        self._append(plan, self._records(self._spark, plan, result))
        return {}

    def _cut(self, frame: DataFrame) -> list[DataFrame]:
        """Return the micro-batches of an input, by offset."""
        ends = [*(end for end in self._cuts if end < frame.count()), frame.count()]
        return [frame.where(f"offset >= {a} AND offset < {b}") for a, b in itertools.pairwise([0, *ends])]

    def _process_sessions(self, plan: QueryPlan) -> None:
        assert plan.maintained is not None
        sessions, before = OpenSessions(plan.maintained), None
        for part in self._cut(self._batch(plan, plan.inputs[0])):
            now = self._records(self._spark, plan, self._result(self._spark, plan, [part], sessions)).localCheckpoint()
            cut = sessions.stream_time() - sessions.late_ms
            self._prune(self._spark, plan.maintained, sessions)
            at, closed = F.lit(None).cast("timestamp"), session_end(F.col("k")) < F.lit(cut)
            found = now if before is None else compared(before, now, at, closed).where(CHANGED).drop(CHANGED)
            self._append(plan, found)
            before = now

    def _process_as_stream(self, plan: QueryPlan) -> None:
        """Run a plan on Spark's streams: only these close windows, and know rows without a match."""
        with tempfile.TemporaryDirectory(prefix="odradek-sql-conformance-") as folder:
            streams = []
            for number, each in enumerate(plan.inputs):
                path = Path(folder, str(number))
                frame = self._batch(plan, each).coalesce(1)
                for batch, part in enumerate(self._cut(frame)):
                    part.write.mode("append").parquet(str(path / f"{batch}"))
                    for file in (path / f"{batch}").glob("*.parquet"):
                        os.utime(file, (1_000_000 + batch, 1_000_000 + batch))  # Spark reads the oldest first
                files = self._spark.readStream.schema(frame.schema).option("maxFilesPerTrigger", 1)
                streams.append(files.parquet(str(path / "*")))
            query = self._begin(
                plan, streams, lambda frame, _: self._append(plan, frame), f"{folder}/checkpoint", once=True
            )
            query.awaitTermination()

    def insert(self, plan: QueryPlan) -> None:
        self._append(plan, self._frame(self._spark, plan, []))

    def changes(self, plan: QueryPlan, show: Callable[[list[Row]], None], *, once: bool) -> None:
        if plan.eager is not None:
            frames = [self._batch(plan, each) for each in plan.inputs]
            show(
                [shown_row(each) for each in self._joined(self._spark, plan, frames, KeptRecords(plan.eager)).collect()]
            )
            return
        rows = self.rows(plan)
        show([row[:-1] for row in rows] if plan.marks_deleted else rows)

    def _append(self, plan: QueryPlan, records: DataFrame) -> None:
        assert plan.sink is not None
        there = self.topics.setdefault(plan.sink.topic.name, [])
        for row in (by_time(records) if plan.by_time else records).collect():
            time = row["timestamp"]
            ms = 0 if time is None else round(time.astimezone(UTC).timestamp() * 1000)
            number = sum(map(len, self.topics.values()))
            headers = [(each["key"], _bytes(each["value"])) for each in row.asDict().get("headers") or ()]
            there.append(Record(_bytes(row["key"]), _bytes(row["value"]), ms, headers=headers, number=number))


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


class _Latest:
    """LatestTable of a topic in memory."""

    def __init__(self, engine: MemoryEngine, topic: str, *, is_result: bool) -> None:
        self._engine, self._topic, self._is_result = engine, topic, is_result

    def now(self) -> DataFrame:
        return latest_per_key(self._engine.records(self._topic, is_result=self._is_result))


class _Topics:
    def __init__(self, engine: MemoryEngine) -> None:
        self._engine = engine

    def partitions(self) -> Mapping[str, int]:
        return dict.fromkeys(self._engine.topics, 1)

    def create(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        self._engine.topics.setdefault(name, [])

    def delete(self, name: str) -> None:
        self._engine.topics.pop(name, None)


class _Screen:
    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        self._outcome.results.append([dict(zip(columns, row, strict=True)) for row in rows])

    def rows(self, columns: Sequence[str], rows: Sequence[Row]) -> None:
        self.table("", columns, rows)

    def say(self, text: str) -> None:
        self._outcome.said.append(text)


Input = Mapping[str, Any]  # topic, key, value (or bytes), timestamp, headers


def planned(script: str, planner: Planner) -> tuple[Planner, list[Step]]:
    """Return a planner that has planned a script, and the steps of it. Raises SqlError."""
    return planner, [Step(planner.plan(each), each.at, script, "") for each in parse(script)]


def run_steps(engine: MemoryEngine, planner: Planner, steps: Sequence[Step]) -> Outcome:
    """Run the steps of a script over the topics of an engine. Raises SqlError."""
    outcome = Outcome(planner, engine.topics)
    Session(engine, _Topics(engine), _Screen(outcome), once=True).run(steps)
    return outcome


class Runner:
    """Runs cases in one session."""

    def __init__(self, spark: SparkSession, registry: RegistryAddress | None = None) -> None:
        self._spark = spark
        self._registry = registry

    def run(
        self,
        script: str,
        inputs: Sequence[Input],
        topics: Sequence[str] = (),
        *,
        one_by_one: bool = False,
        cuts: Sequence[int] = (),
    ) -> Outcome:
        """Run a script over records that are there before it. Raises SqlError.

        Args:
            one_by_one: tables that are maintained take each record in a micro-batch of its own.
            cuts: offsets at which micro-batches end; windows and joins of streams then run in these.
        """
        schemas = None if self._registry is None else partial(columns_of, self._registry.open())
        planner, steps = planned(script, Planner(schemas=schemas))
        engine = MemoryEngine(self._spark, self._registry, one_by_one=one_by_one, cuts=cuts)
        for name in {each.topic for each in planner.catalog.sources.values()} | set(topics):
            engine.topics[name] = []
        for number, each in enumerate(inputs):
            record = self.record(source_of(planner, each["topic"], steps), each)
            record.number = number
            engine.topics.setdefault(each["topic"], []).append(record)
        return run_steps(engine, planner, steps)

    def record(self, source: Source | None, given: Input) -> Record:
        """Return the record that a case writes as data."""
        key = self._encode(source, "key", given.get("key"))
        if given.get("window") and key is not None:
            window = given["window"]
            bounds = [window["start"]] if window["type"] == "time" else [window["end"], window["start"]]
            key += b"".join(each.to_bytes(8, "big", signed=True) for each in bounds)
        headers = [
            (name, None if value is None else base64.b64decode(value)) for each in given.get("headers") or ()
            for name, value in [(each["KEY"], each["VALUE"])]
        ]  # fmt: skip
        value = given["bytes"] if "bytes" in given else self._encode(source, "value", given.get("value"))
        return Record(key, value, int(given.get("timestamp") or 0), 0, headers)

    def shown(self, source: Source | None, record: Record) -> dict[str, Any]:
        """Return a record as data."""
        key, window = record.key, None
        if source is not None and source.window and key is not None:
            if source.window == "SESSION":
                key, end, start = key[:-16], key[-16:-8], key[-8:]
                window = (int.from_bytes(start, "big", signed=True), int.from_bytes(end, "big", signed=True))
            else:
                key, start = key[:-8], key[-8:]
                window = (int.from_bytes(start, "big", signed=True), None)
        found = {
            "key": self._decode(source, "key", key), "value": self._decode(source, "value", record.value),
            "timestamp": record.timestamp_ms,
            "headers": [{"KEY": name, "VALUE": None if value is None else base64.b64encode(value).decode()}
                        for name, value in record.headers or ()],
        }  # fmt: skip
        return found if window is None else found | {"window": window}

    def _encode(self, source: Source | None, part: str, value: Any) -> bytes | None:
        if value is None:
            return None
        columns = () if source is None else source.keys if part == "key" else source.values
        name = "JSON" if source is None else source.key_format if part == "key" else source.value_format
        if name in REGISTERED and source is not None:
            codec = Codec("", part, source.topic, source.form(part), columns)
            row = {columns[0].name: value} if not codec.form.wrapped else {k.upper(): v for k, v in value.items()}
            row = {each.name: _typed(row.get(each.name.upper()), each.type) for each in columns}
            return writer(codec, self._registry)(row)
        if name in ("KAFKA", "RAW") and columns:
            kind = columns[0].type.name
            if kind == "DOUBLE":
                return struct.pack(">d", value)
            if kind in ("INT", "BIGINT") and not isinstance(value, str):
                return int(value).to_bytes(4 if kind == "INT" else 8, "big", signed=True)
            return base64.b64decode(value) if kind == "BYTES" else str(value).encode()
        if name == "DELIMITED" or (name in ("KAFKA", "NONE", "RAW") and isinstance(value, str)):
            return str(value).encode()
        if part == "key" and not columns and isinstance(value, str):
            return value.encode()
        return json.dumps(value, default=_number).encode()

    def _decode(self, source: Source | None, part: str, data: bytes | None) -> Any:
        if data is None:
            return None
        columns = () if source is None else source.keys if part == "key" else source.values
        name = "JSON" if source is None else source.key_format if part == "key" else source.value_format
        if name in REGISTERED and source is not None:
            codec = Codec("", part, source.topic, source.form(part), columns)
            row = reader(codec, self._registry)(data) or {}
            shown = {each.name: _plain(row.get(each.name)) for each in columns}
            return shown if codec.form.wrapped else shown[columns[0].name]
        if name in ("KAFKA", "RAW") and columns:
            kind = columns[0].type.name
            if kind == "DOUBLE":
                return struct.unpack(">d", data)[0]
            if kind in ("INT", "BIGINT"):
                return int.from_bytes(data, "big", signed=True)
            return base64.b64encode(data).decode() if kind == "BYTES" else data.decode()
        text = data.decode()
        if name == "DELIMITED":
            return text
        try:
            return json.loads(text, parse_float=Decimal)
        except ValueError:
            return text


def _number(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    raise TypeError(type(value))


def _typed(value: Any, kind: Any) -> Any:
    """Return data of a case as a column has it."""
    if value is None:
        return None
    if kind.name == "DECIMAL":
        return Decimal(str(value)).quantize(Decimal(1).scaleb(-kind.scale))
    if kind.name == "BYTES":
        return base64.b64decode(value)
    if kind.name == "DOUBLE":
        return float(value)
    if kind.name == "ARRAY":
        return [_typed(each, kind.inner[0]) for each in value]
    if kind.name == "MAP":
        return {k: _typed(v, kind.inner[1]) for k, v in value.items()}
    if kind.name == "STRUCT":
        fields = {k.upper(): v for k, v in value.items()}
        return {n: _typed(fields.get(n.upper()), each) for n, each in zip(kind.fields, kind.inner, strict=True)}
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def source_of(planner: Planner, topic: str, steps: Sequence[Step] = ()) -> Source | None:
    """Return the stream or table over a topic; the last one, if there are several."""
    made = [step.action.source for step in steps if isinstance(step.action, Started) and step.action.source]
    found = [each for each in [*planner.catalog.sources.values(), *made] if each.topic == topic]
    return found[-1] if found else None
