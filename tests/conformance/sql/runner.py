"""Runs a case of stream SQL on Spark: records of input topics in, a script, records of its topics out.

Topics are lists in this process. Each persistent query runs once, as Spark's batch of the same plan: the same Spark SQL
on the same records as one micro-batch, without the second that it takes to start a streaming query. Those that wait for
stream time (EMIT FINAL, joins of streams) run as streams over files, and with `cuts` all that know stream time do, in
several micro-batches. What depends on the service is in tests/integration/sql.

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

from odradek.sql.catalog import REGISTERED, Source
from odradek.sql.on_spark import SparkEngine, by_time
from odradek.sql.parse import parse
from odradek.sql.plan import Codec, QueryPlan, Started
from odradek.sql.plan import Input as PlanInput
from odradek.sql.running.maintained import OpenSessions, changes, session_end
from odradek.sql.running.registered import RegistryAddress, columns_of, reader, writer
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


@dataclass
class Outcome:
    """What a script did."""

    planner: Planner
    topics: dict[str, list[Record]]
    said: list[str] = field(default_factory=list)
    results: list[list[dict[str, Any]]] = field(default_factory=list)


class MemoryEngine(SparkEngine):
    """Runs plans over topics in memory."""

    def __init__(self, spark: SparkSession, registry: RegistryAddress | None = None) -> None:
        super().__init__(spark, store={}, sink={}, checkpoints="", stop=threading.Event(), registry=registry)
        self.topics: dict[str, list[Record]] = {}
        self.cuts: Sequence[int] = ()

    def _batch(self, plan: QueryPlan, given: PlanInput) -> DataFrame:
        rows = [
            (each.key, each.value, datetime.fromtimestamp(each.timestamp_ms / 1000, UTC), each.partition, offset,
             each.headers or [])
            for offset, each in enumerate(self.topics.get(given.topic, []))
        ]  # fmt: skip
        return self._spark.createDataFrame(rows, _RECORDS)

    def process(self, plan: QueryPlan) -> Mapping[str, Any]:
        if any(each.observed for each in plan.inputs) and (plan.output_mode == "append" or self.cuts):
            self._process_as_stream(plan)
            return {}
        if plan.maintained and plan.maintained.session_ms and self.cuts:
            self._process_sessions(plan)
            return {}
        frames = [self._batch(plan, each) for each in plan.inputs]
        sessions = OpenSessions(plan.maintained) if plan.maintained and plan.maintained.session_ms else None
        self._append(plan, self._records(self._spark, plan, self._result(self._spark, plan, frames, sessions)))
        return {}

    def _cut(self, frame: DataFrame) -> list[DataFrame]:
        """Return the micro-batches of an input, by offset."""
        ends = [*(end for end in self.cuts if end < frame.count()), frame.count()]
        return [frame.where(f"offset >= {a} AND offset < {b}") for a, b in itertools.pairwise([0, *ends])]

    def _process_sessions(self, plan: QueryPlan) -> None:
        assert plan.maintained is not None
        sessions, before = OpenSessions(plan.maintained), None
        for part in self._cut(self._batch(plan, plan.inputs[0])):
            now = self._records(self._spark, plan, self._result(self._spark, plan, [part], sessions)).localCheckpoint()
            cut = sessions.stream_time() - sessions.late_ms
            self._prune(self._spark, plan.maintained, sessions)
            at, closed = F.lit(None).cast("timestamp"), session_end(F.col("k")) < F.lit(cut)
            self._append(plan, now if before is None else changes(before, now, at, closed))
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
        rows = self.rows(plan)
        show([row[:-1] for row in rows] if plan.marks_deleted else rows)

    def _append(self, plan: QueryPlan, records: DataFrame) -> None:
        assert plan.sink is not None
        there = self.topics.setdefault(plan.sink.topic.name, [])
        for row in (by_time(records) if plan.by_time else records).collect():
            time = row["timestamp"]
            ms = 0 if time is None else round(time.astimezone(UTC).timestamp() * 1000)
            there.append(Record(_bytes(row["key"]), _bytes(row["value"]), ms))


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


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


class Runner:
    """Runs cases in one session."""

    def __init__(self, spark: SparkSession, registry: RegistryAddress | None = None) -> None:
        self._spark = spark
        self._registry = registry

    def run(
        self, script: str, inputs: Sequence[Input], topics: Sequence[str] = (), *, cuts: Sequence[int] = ()
    ) -> Outcome:
        """Run a script over records that are there before it. Raises SqlError.

        Args:
            cuts: offsets at which micro-batches end; windows and joins of streams then run in these.
        """
        schemas = None if self._registry is None else partial(columns_of, self._registry.open())
        planner = Planner(schemas=schemas)
        steps = [Step(planner.plan(each), each.at, script, "") for each in parse(script)]
        engine = MemoryEngine(self._spark, self._registry)
        engine.cuts = cuts
        outcome = Outcome(planner, engine.topics)
        for name in {each.topic for each in planner.catalog.sources.values()} | set(topics):
            engine.topics[name] = []
        for each in inputs:
            source = source_of(planner, each["topic"], steps)
            engine.topics.setdefault(each["topic"], []).append(self.record(source, each))
        Session(engine, _Topics(engine), _Screen(outcome), once=True).run(steps)
        return outcome

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
