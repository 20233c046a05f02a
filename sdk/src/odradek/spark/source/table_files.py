"""Columnar segments as files: which of them an engine reads as they lie, what they are called, and what they leave."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from odradek.columnar.names import TIMESTAMP_MS_MAX
from odradek.extras import extra
from odradek.model.kinds import RECORD_COLUMNS, Kind
from odradek.model.topic_partition import TopicPartition
from odradek.spark.offsets import Ranges
from odradek.spark.options import StoreOptions
from odradek.spark.source.log_view import LogView, TableFile

if TYPE_CHECKING:
    import pyarrow as pa

_PATTERN = frozenset("[]{}*?\\")


def uncovered(
    ranges: Mapping[TopicPartition, tuple[int, int]],
    partitions: Mapping[Any, TopicPartition],
    files: Iterable[TableFile],
) -> Ranges:
    """Return the offsets of ranges that no file has.

    Args:
        partitions: by partition id.
    """
    covered: dict[TopicPartition, list[tuple[int, int]]] = {}
    for file in files:
        covered.setdefault(partitions[file.partition], []).append((file.base_offset, file.end_offset))
    uncovered_spans: Ranges = {}
    for tp, (first, end) in ranges.items():
        spans = []
        for base, stop in sorted(covered.get(tp, ())):
            if first < base:
                spans.append((first, base))
            first = stop
        if first < end:
            spans.append((first, end))
        if spans:
            uncovered_spans[tp] = tuple(spans)
    return uncovered_spans


def has_plain_paths(options: StoreOptions) -> bool:
    """Return False if an engine would take paths of the store for patterns."""
    return not _PATTERN & set(os.path.abspath(options.data_dir) if options.data_dir is not None else options.prefix)


def paths_of(options: StoreOptions, files: Iterable[TableFile], scheme: str) -> list[str]:
    """Return the paths of files as Hadoop's file systems name them."""
    if options.data_dir is None:
        return [f"{scheme}://{options.bucket}/{options.prefix}{file.object_key}" for file in files]
    folder = os.path.abspath(os.path.join(options.data_dir, "objects"))
    return [f"file://{folder}/{file.object_key}" for file in files]


def readable(
    view: LogView,
    files: Sequence[TableFile],
    typed: Sequence[tuple[str, Kind]],
    *,
    with_values: bool = True,
    alone: bool = False,
    checked: bool = False,
) -> list[TableFile]:
    """Return the files that an engine can read as they lie: these typed columns, and timestamps that fit its own.

    A file whose footer is damaged is none: its records are read by the index of the segment.

    Args:
        with_values: the bytes of values as well, which not all files have.
        alone: and no other typed columns.
        checked: read the footer of every file, even where no column is asked for.
    """
    files = [
        file for file in files if file.max_timestamp_ms <= TIMESTAMP_MS_MAX and not (with_values and file.has_recipes)
    ]
    if not typed and not alone and not checked:
        return files
    with extra("table"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    fitting = []
    for file, footer in zip(files, view.footers(files), strict=True):
        if footer is None:
            continue
        try:
            file_schema = pq.read_schema(io.BytesIO(footer))
        except (pa.ArrowInvalid, OSError):
            continue
        if alone and {name for name in file_schema.names if name.lower() not in RECORD_COLUMNS} != {
            name for name, _ in typed
        }:
            continue
        if all(
            file_schema.get_field_index(name) >= 0 and _kind(file_schema.field(name).type) == data_type
            for name, data_type in typed
        ):
            fitting.append(file)
    return fitting


def _kind(arrow_type: pa.DataType) -> Kind | None:
    from odradek.columnar.typed.arrow_kinds import kind_of_arrow

    try:
        return kind_of_arrow(arrow_type)
    except ValueError:
        return None
