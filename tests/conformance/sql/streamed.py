"""Scripts as the engine's own streaming queries, over files in place of topics, in micro-batches that a test chooses.

A micro-batch reads one file of each topic. Tables are looked up as of the micro-batch. The result is a list in this
process, as in runner.py, which runs most queries as one batch.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from odradek.spark.jobs.latest import latest_per_key
from odradek.sql.on_spark import WriteBatch
from odradek.sql.plan import Input, QueryPlan
from odradek.sql.running.eager import KeptRecords
from odradek.sql.script import Planner
from pyspark.sql import functions as F

from tests.conformance.sql.runner import MemoryEngine, Record, planned, run_steps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_EPOCH = datetime.fromtimestamp(0, UTC)
_SCHEMA = pa.schema(
    [("key", pa.binary()), ("value", pa.binary()), ("timestamp", pa.timestamp("us", "UTC")), ("partition", pa.int32()),
     ("offset", pa.int64()), ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))]
)  # fmt: skip


@dataclass(frozen=True)
class Sent:
    """A record of an input; `source` is the value of its header `from`."""

    topic: str
    key: str | None
    value: str | None
    time_ms: int
    source: str


Row = tuple[bytes | None, str | None, int, str | None]
"""Key, value, milliseconds and the header `from` of a record of the result."""


class StreamedEngine(MemoryEngine):
    """Runs each persistent query as a stream. The `number` of a record is that of the micro-batch that reads it."""

    def process(self, plan: QueryPlan) -> Mapping[str, Any]:
        topics = dict.fromkeys(each.topic for each in plan.inputs if each.read == "stream" or plan.maintained)
        with tempfile.TemporaryDirectory(prefix="odradek-sql-streamed-") as folder:
            streams = [self._stream(topic, Path(folder, f"{place}")) for place, topic in enumerate(topics)]
            self._begin(plan, streams, self._writer(plan), f"{folder}/checkpoint", once=True).awaitTermination()
        return {}

    def _stream(self, topic: str, folder: Path) -> DataFrame:
        """Return the records of a topic, a file for each micro-batch."""
        folder.mkdir()
        arrivals = list(enumerate(self.topics[topic]))
        for number in range(1 + max(each.number for records in self.topics.values() for each in records)):
            path = folder / f"{number:04}.parquet"
            pq.write_table(_table([(offset, each) for offset, each in arrivals if each.number == number]), path)
            os.utime(path, (1_000_000 + number, 1_000_000 + number))  # Spark reads the oldest first
        files = self._spark.readStream.schema(self.records(topic).schema).option("maxFilesPerTrigger", 1)
        return files.parquet(str(folder))

    def _writer(self, plan: QueryPlan) -> WriteBatch:
        assert plan.sink is not None
        written = self.topics.setdefault(plan.sink.topic.name, [])

        def write(frame: DataFrame, batch_id: int) -> None:
            for row in frame.collect():
                headers = [(each["key"], bytes(each["value"])) for each in row.asDict().get("headers") or ()]
                ms = (row["timestamp"].astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)
                key, value = (None if row[name] is None else bytes(row[name]) for name in ("key", "value"))
                written.append(Record(key, value, ms, headers=headers, number=batch_id))

        return write

    def _with_tables(self, plan: QueryPlan, write: WriteBatch) -> WriteBatch:
        return self._as_of_batch(super()._with_tables(plan, write))

    def _join_eagerly(self, plan: QueryPlan, write: WriteBatch, checkpoint: str) -> WriteBatch:
        """As the engine does, without its positions in topics, which it needs after a restart."""
        assert plan.eager is not None
        kept = KeptRecords(plan.eager)

        def write_joined(records: DataFrame, batch_id: int) -> None:
            session, arrived = records.sparkSession, records.localCheckpoint(eager=True)
            frames = [arrived.where(F.col("__input") == number) for number in range(len(plan.inputs))]
            write(self._records(session, plan, self._joined(session, plan, frames, kept)), batch_id)
            kept.keep(batch_id)

        return write_joined

    def _maintain(self, plan: QueryPlan, write: WriteBatch) -> WriteBatch:
        return self._as_of_batch(super()._maintain(plan, write))

    @property
    def batch_id(self) -> int:
        """The present micro-batch."""
        return self._arrived or 0

    def _as_of_batch(self, write: WriteBatch) -> WriteBatch:
        def write_as_of(frame: DataFrame, batch_id: int) -> None:
            self._arrived = batch_id
            write(frame, batch_id)

        return write_as_of

    def _latest(self, session: SparkSession, plan: QueryPlan, topic: str, *, has_headers: bool = False) -> Any:
        return _Table(self, session, topic, is_result=plan.sink is not None and plan.sink.topic.name == topic)

    def _looked_up(self, session: SparkSession, plan: QueryPlan, given: Input) -> Any:
        return _Table(self, session, given.topic, has_versions=given.read == "history")

    def offsets(self, topic: str, since: int) -> list[int]:
        """Return the offsets of what a topic has of the micro-batches from `since` to the present one."""
        return [offset for offset, each in enumerate(self.topics[topic]) if since <= each.number <= self.batch_id]


class _Table:
    """LatestTable and HistoryTable of a topic in this process, as of the engine's micro-batch.

    Its frames are of the micro-batch's session, as its views are.
    """

    def __init__(
        self,
        engine: StreamedEngine,
        session: SparkSession,
        topic: str,
        *,
        is_result: bool = False,
        has_versions: bool = False,
    ) -> None:
        self._engine, self._session, self._topic = engine, session, topic
        self._is_result, self._has_versions = is_result, has_versions
        self._since = 0

    def now(self) -> DataFrame:
        records = self._records()
        return records if self._has_versions else latest_per_key(records)

    def fresh(self) -> DataFrame:
        offsets = self._engine.offsets(self._topic, self._since)
        self._since = self._engine.batch_id + 1
        return self._records().where(F.col("offset").isin(offsets))

    def _records(self) -> DataFrame:
        return self._engine.records(self._topic, is_result=self._is_result, session=self._session)


def _table(arrivals: Sequence[tuple[int, Record]]) -> pa.Table:
    rows = [
        {"key": each.key, "value": each.value, "timestamp": _EPOCH + timedelta(milliseconds=each.timestamp_ms),
         "partition": each.partition, "offset": offset,
         "headers": [{"key": name, "value": value} for name, value in each.headers or ()]}
        for offset, each in arrivals
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, _SCHEMA)


def rows_of(
    spark: SparkSession, script: str, variants: Sequence[Sequence[Sent]], *, one_by_one: bool, result: str = "R"
) -> list[Row]:
    """Return what a script writes into the topic of its result. Raises SqlError.

    Args:
        variants: inputs that do not meet: each is a partition of its topics.
        one_by_one: a micro-batch has the next record of each variant, not all records.
    """
    engine = StreamedEngine(spark)
    planner, steps = planned(script, Planner())
    engine.topics |= {source.topic: [] for source in planner.catalog.sources.values()}
    for partition, sent in enumerate(variants):
        for number, each in enumerate(sent):
            engine.topics[each.topic].append(_record(each, partition, number if one_by_one else 0))
    outcome = run_steps(engine, planner, steps)
    engine.close()
    return [_row(each) for each in outcome.topics[result]]


def _record(sent: Sent, partition: int, number: int) -> Record:
    key, value = (None if text is None else text.encode() for text in (sent.key, sent.value))
    return Record(key, value, sent.time_ms, partition, [("from", sent.source.encode())], number)


def _row(record: Record) -> Row:
    source = [value.decode() for name, value in record.headers or () if name == "from" and value is not None]
    value = None if record.value is None else record.value.decode()
    return record.key, value, record.timestamp_ms, source[-1] if source else None
