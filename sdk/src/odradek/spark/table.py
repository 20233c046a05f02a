"""A topic as a table: what is columnar by Spark's own Parquet reader, the rest by format("odradek"), each record once.

    1 fix     the ends of all partitions, in one consistent look at the heads; AS OF lowers them
    2 files   the index rows name the Parquet files that lie wholly within [start, end), and their offsets
    3 rest    the offsets between: the tail, spilled rows, segments of batches, a file that an end cuts in two

The offsets are fixed by the call, not when Spark runs: a record that a merge moves into a file afterwards is still read
once, since format("odradek") reads the offsets of the rest wherever they are then. A small rest, as a topic has that is
merged regularly, is read by the call itself: starting Python workers for it would take longer than the files do. Where
Spark runs on this machine alone, the call writes it to a temporary file, so that one scan reads everything. No row
passes through Python but those of the rest, and of files that do not keep their values, where a query uses `value`. A
file that lacks a typed column, or has it in another type, belongs to the rest: its values are parsed.
"""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, reduce
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.columnar.names import COLUMNS
from odradek.errors import ErrorCode, KafkaError
from odradek.extras import extra
from odradek.model.kinds import VALUE_RECIPE, VALUE_REST, Kind, text_of
from odradek.model.topic_partition import PartitionId, TopicPartition
from odradek.spark.made_values import can_make_values, made_value
from odradek.spark.offsets import Ranges, ranges_document
from odradek.spark.options import (
    EMBEDDED_PREFIX,
    STORE_OPTIONS,
    Subscription,
    known_options,
    parse_store,
)
from odradek.spark.source.log_view import LogView, TableFile
from odradek.spark.source.plan import ReadRange
from odradek.spark.source.table_files import has_plain_paths, paths_of, readable, uncovered

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

AsOf = int | str | datetime | Mapping[int, int] | None

_FEW_RECORDS, _FEW_BYTES = 100_000, 4 * 1024 * 1024  # stored; of a rest that the call reads
_MADE = ("topic", "partition")  # not in the files
_PARTITION = "CAST(substring_index(substring_index(_metadata.file_path, '/', -2), '/', 1) AS INT)"


def table(
    spark: SparkSession,
    topic: str,
    store: Mapping[str, str] | Path | str = ".odradek",
    *,
    as_of: AsOf = None,
    columns: Sequence[str] | None = None,
    scheme: str | None = None,
) -> DataFrame:
    """Return all records of a topic that are there at the time of the call, in no order.

    Args:
        spark: a session that knows the source (`odradek.spark.register`).
        store: the folder of an embedded service, which may be running, or the options of a store as those of
            `format("odradek")`: `{"store": "aws", "logTable": ..., "catalogTable": ..., "bucket": ...}`.
        as_of: the table at a time, up to the first record of each partition with a later timestamp: a datetime, text in
            ISO 8601 (UTC where it names no zone), or ms since the epoch. Or ends by partition, exclusive; partitions
            that are not named are not read.
        columns: of the record, and the typed columns; all by default. Spark reads only the
            columns that a query uses anyway, except of the rest.
        scheme: of the bucket's paths, `s3` or `s3a`; by default what the session has a file system for.

    Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION; INVALID_CONFIG for an option, a column or a moment that does not
    exist.
    """
    with extra("spark"):
        import pyarrow  # noqa: F401  (what is missing is named before anything else)
        import pyspark  # noqa: F401
    store_options = {"store": f"{EMBEDDED_PREFIX}{store}"} if isinstance(store, Path | str) else store
    options = parse_store(known_options(store_options, tuple(STORE_OPTIONS), {}))
    with LogView(options) as view:
        typed = {column.name: column.kind for column in view.columns_of(topic).columns}
        names = _chosen(topic, columns, typed)
        wanted = tuple((name, data_type) for name, data_type in typed.items() if name in names)
        ids = view.partitions(Subscription(topics=(topic,)))
        bounds = view.bounds(ids)
        ranges = {
            tp: (partition_bounds.log_start_offset, partition_bounds.next_offset)
            for tp, partition_bounds in bounds.items()
        }
        if as_of is not None:
            ranges = _at(view, ranges, as_of)
        by_id = {ids[tp]: ends for tp, ends in ranges.items() if ends[0] < ends[1]}
        table_files = view.table_files(by_id) if has_plain_paths(options) else []
        files = readable(view, table_files, wanted, with_values="value" in names)
        makers: list[TableFile] = []
        if "value" in names and can_make_values(every := tuple(typed.items())):
            makers = readable(
                view, [file for file in table_files if file.has_recipes], every, with_values=False, alone=True
            )
        uncovered_ranges = uncovered(ranges, {ids[tp]: tp for tp in ranges}, [*files, *makers])
        small_rest = _few(view, ids, uncovered_ranges, names, wanted)
    parts = []
    rest_paths: list[str] = []
    if files and small_rest is not None and small_rest.num_rows and _reads_here(spark):
        rest_paths, small_rest = _as_files(small_rest), small_rest.slice(0, 0)
    for some, columns_there in ((files, wanted), (makers, tuple(typed.items()))):
        if some:
            paths = paths_of(options, some, scheme or _scheme(spark)) + (rest_paths if some is files else [])
            parts.append(_of_files(spark, topic, paths, names, columns_there, makes_values=some is makers))
    if small_rest is not None and (small_rest.num_rows or not parts):
        schema = _schema(names, wanted)
        parts.append(spark.createDataFrame(small_rest if small_rest.num_rows else [], schema=schema))
    elif small_rest is None:
        parts.append(_of_rest(spark, store_options, uncovered_ranges, names, wanted))
    return reduce(lambda frame, part: frame.unionAll(part), parts)


def _reads_here(spark: SparkSession) -> bool:
    """Return True if all of Spark is on this machine, so that it can read files that this process writes."""
    context = getattr(spark, "_jsc", None)
    return context is not None and str(context.sc().master()).startswith("local[")


def _as_files(rows: pa.Table) -> list[str]:
    """Write rows to files, which are read together with the others: a union makes a row of every record below it."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    folder = Path(tempfile.mkdtemp(dir=_own_folder()))
    partitions = pc.unique(rows["partition"]).to_pylist() if "partition" in rows.column_names else [0]
    paths = []
    for partition in partitions:
        own = rows.filter(pc.equal(rows["partition"], partition)) if "partition" in rows.column_names else rows
        path = folder / str(partition) / "rest.parquet"  # the folder is the partition, as of the log's own files
        path.parent.mkdir()
        own = own.drop_columns([name for name in _MADE if name in own.column_names])
        pq.write_table(own, path, write_statistics=False)  # few rows; bounds leave NaN out
        paths.append(f"file://{path}")
    return paths


@cache
def _own_folder() -> str:
    folder = tempfile.mkdtemp(prefix="odradek-table-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _scheme(spark: SparkSession) -> str:
    """Return `s3` where the session has a file system for it, as on Glue and EMR, else `s3a`."""
    context = getattr(spark, "_jsc", None)  # Spark Connect has none
    return "s3" if context is not None and context.hadoopConfiguration().get("fs.s3.impl") else "s3a"


def _chosen(topic: str, columns: Sequence[str] | None, typed: Mapping[str, Kind]) -> list[str]:
    names = [*COLUMNS, *typed]
    if columns is None:
        return names
    unknown = [name for name in columns if name not in names]
    if unknown or not columns:
        raise _refused(f"{topic} has no column {', '.join(map(repr, unknown)) or ''}: use {', '.join(names)}")
    return list(dict.fromkeys(columns))


def _at(
    view: LogView, ranges: Mapping[TopicPartition, tuple[int, int]], as_of: int | str | datetime | Mapping[int, int]
) -> dict[TopicPartition, tuple[int, int]]:
    """Return the ranges as they were at a moment."""
    if isinstance(as_of, Mapping):
        unknown = [partition for partition in as_of if all(partition != tp.partition for tp in ranges)]
        wrong = [end for end in as_of.values() if not isinstance(end, int) or end < 0]
        if unknown or wrong:
            raise _refused(
                f"as_of: there is no partition {unknown[0]}" if unknown else f"as_of: {wrong[0]!r} is no offset"
            )
        return {
            tp: (first, max(first, min(as_of[tp.partition], end)))
            for tp, (first, end) in ranges.items()
            if tp.partition in as_of
        }
    later = view.offsets_at(list(ranges), _milliseconds(as_of) + 1)
    return {tp: (first, max(first, min(later.get(tp, end), end))) for tp, (first, end) in ranges.items()}


def _milliseconds(moment: int | str | datetime) -> int:
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            raise _refused(f"as_of: invalid time {moment!r}: use ISO 8601, such as 2026-11-22T10:00") from None
    if isinstance(moment, datetime):
        return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    return moment


def _of_files(
    spark: SparkSession,
    topic: str,
    paths: Sequence[str],
    names: Sequence[str],
    typed: Sequence[tuple[str, Kind]],
    *,
    makes_values: bool,
) -> DataFrame:
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType

    stored = [name for name in (*COLUMNS, *(name for name, _ in typed)) if name not in _MADE]
    schema = _schema(stored, typed)
    made = {"topic": F.lit(topic), "partition": F.expr(_PARTITION)}
    if makes_values:
        schema = schema.add(VALUE_RECIPE, BinaryType()).add(VALUE_REST, BinaryType())
        made["value"] = made_value(typed)
    frame = spark.read.schema(schema).option("mergeSchema", "false").parquet(*paths)
    return frame.select(*(made[name].alias(name) if name in made else F.col(name) for name in names))


def _of_rest(
    spark: SparkSession,
    store: Mapping[str, str],
    uncovered_ranges: Ranges,
    names: Sequence[str],
    typed: Sequence[tuple[str, Kind]],
) -> DataFrame:
    plain = [name for name in names if name in COLUMNS] or ["offset"]
    options = {
        **store,
        "ranges": json.dumps(ranges_document(uncovered_ranges)),
        "columns": ",".join(plain),
        "typedColumns": text_of(typed),
    }
    from pyspark.sql import functions as F

    from odradek.spark.source.data_source import kinds_of, source_kinds

    kinds, source_types = kinds_of(typed), source_kinds(typed)
    frame = spark.read.format("odradek").options(**options).load()
    return frame.select(*(F.col(f"`{name}`").cast(kinds[name]).alias(name) if kinds[name] != source_types[name]
                          else F.col(f"`{name}`") for name in names))  # fmt: skip


def _few(
    view: LogView,
    ids: Mapping[TopicPartition, PartitionId],
    uncovered_ranges: Ranges,
    names: Sequence[str],
    typed: Sequence[tuple[str, Kind]],
) -> pa.Table | None:
    """Return the rest as rows if it is small, else None."""
    import pyarrow as pa

    from odradek.columnar.schema import schema as records_schema
    from odradek.spark.source.typed import read_columns, typed_schema

    if sum(end - first for spans in uncovered_ranges.values() for first, end in spans) > _FEW_RECORDS:
        return None
    kinds = typed_schema(typed)
    schema = pa.schema([*records_schema(columns=COLUMNS), *kinds])
    parts = [
        ReadRange(tp.topic, ids[tp].topic_id, tp.partition, first, end, tuple(pieces))
        for tp, spans in uncovered_ranges.items()
        for first, end in spans
        if (pieces := view.pieces(ids[tp], first, end))
    ]
    if sum(part.size_bytes for part in parts) > _FEW_BYTES:
        return None
    batches = [batch for part in parts for batch in read_columns(part, names, view, typed)]
    return pa.Table.from_batches(batches, schema=pa.schema([schema.field(name) for name in names]))


def _schema(names: Sequence[str], typed: Sequence[tuple[str, Kind]]) -> StructType:
    from pyspark.sql.types import StructType

    from odradek.spark.source.data_source import kinds_of

    kinds = kinds_of(typed)
    schema = StructType()
    for name in names:
        schema = schema.add(name, kinds[name])
    return schema


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)
