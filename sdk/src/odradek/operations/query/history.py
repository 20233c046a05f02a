"""Columnar history by DuckDB's own Parquet reader, as one view with a dataset of the rest.

    files   columnar segments that lie wholly within the offsets of a query, with all typed columns of the topic
    rest    tail, spilled rows, segments of batches, a file that an end cuts in two: a TopicDataset

The view has the columns of the dataset. Fields that only a sample has are parsed from `value`, by a function that
DuckDB calls where a query uses the column. On S3 there is no view: DuckDB reads it by an extension, which is downloaded
where it runs, and the dataset reads what a filter leaves with few requests.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from odradek.columnar.typed.typed_values import TypedValues
from odradek.model.kinds import Kind
from odradek.model.topic_partition import PartitionId, TopicPartition
from odradek.operations.query.statement import literal, quoted
from odradek.operations.query.topic import COLUMNS, QueryLog, Ranges, TopicDataset
from odradek.spark.options import StoreOptions
from odradek.spark.source.table_files import has_plain_paths, paths_of, readable, uncovered
from odradek.spark.source.typed import read_values


@dataclass(frozen=True, slots=True)
class History:
    """The files of a topic that DuckDB reads itself, and the offsets of the rest: half-open, by partition."""

    paths: tuple[str, ...]
    rest: Mapping[TopicPartition, Sequence[tuple[int, int]]]


def history(
    log: QueryLog,
    options: StoreOptions,
    ids: Mapping[TopicPartition, PartitionId],
    ranges: Ranges,
    typed: Sequence[tuple[str, Kind]],
    *,
    with_values: bool,
) -> History:
    """Return what of these offsets lies in files that DuckDB can open and that have these columns.

    Args:
        with_values: and the bytes of the values.
    """
    by_id = {ids[place]: ends for place, ends in ranges.items() if ends[0] < ends[1]}
    if options.data_dir is None or not has_plain_paths(options) or not by_id:
        return History((), uncovered(ranges, {}, ()))
    files = readable(log, log.table_files(by_id), typed, with_values=with_values, checked=True)
    paths = [path.removeprefix("file://") for path in paths_of(options, files, "file")]
    return History(tuple(paths), uncovered(ranges, {ids[place]: place for place in ranges}, files))


class ParsedColumn:
    """A column that files lack, as a function of DuckDB's from chunks of values.

    Attributes:
        misfits: values that did not fit, in everything that was read.
        failure: why the store did not say what was needed.
    """

    def __init__(self, name: str, values: TypedValues, log: QueryLog) -> None:
        self._name = name
        self._values = values
        self._log = log
        self._lock = threading.Lock()  # DuckDB calls from several threads
        self.misfits = 0
        self.failure: Exception | None = None

    def __call__(self, values: Any) -> pa.Array:
        chunk = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        with self._lock:
            try:
                [found], misfits = read_values(self._values, self._log, chunk.cast(pa.binary()), [self._name])
            except Exception as error:
                self.failure = error
                raise
            self.misfits += misfits
        return found


def create_view(
    connection: Any,
    relation: str,
    topic: str,
    paths: Sequence[str],
    dataset: TopicDataset,
    parsed: Mapping[str, ParsedColumn],
) -> None:
    """Make a relation of the files and the dataset.

    Args:
        parsed: by name, the columns of the dataset that the files lack.
    """
    rest = f"{relation} rest"
    if parsed or not dataset.is_empty:
        connection.register(rest, dataset)
    types: dict[str, Any] = {}
    if parsed:
        kinds = connection.table(rest)
        types = dict(zip(kinds.columns, kinds.types, strict=True))
    columns = []
    for number, name in enumerate(dataset.schema.names):
        if name == "topic":
            columns.append(f"{literal(topic)} AS topic")
        elif name in parsed:
            function = f"{relation} {number}"
            connection.create_function(
                function, parsed[name], [types["value"]], types[name], type="arrow", null_handling="special"
            )
            columns.append(f'{quoted(function)}("value") AS {quoted(name)}')
        else:
            columns.append(quoted(name))
    files = ", ".join(map(literal, paths))
    of_files = f"SELECT {', '.join(columns)} FROM read_parquet([{files}])"  # noqa: S608
    of_rest = f" UNION ALL SELECT {', '.join(map(quoted, dataset.schema.names))} FROM {quoted(rest)}"  # noqa: S608
    connection.execute(f"CREATE TEMP VIEW {quoted(relation)} AS {of_files}{'' if dataset.is_empty else of_rest}")


assert "topic" in COLUMNS, "the only column that no file has"
