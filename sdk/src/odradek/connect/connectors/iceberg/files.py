"""Data files of PyIceberg's writes, with bounds that hide no row.

PyIceberg takes the bounds of a column from the statistics of its Parquet file, which leave NaN out: readers then pass
over a file although a NaN in it fulfils their filter. Nor can it make the bound of every text, or of a moment after the
year 9999. Its files are written and measured here, as those that merges write (columnar/bounds.py, metrics.py of the
adapter). A table's own `write.metadata.metrics.*` are kept to.
"""

from __future__ import annotations

from typing import Any, cast

from odradek.adapters.iceberg.metrics import metrics_of
from odradek.columnar.bounds import columns_with_bounds
from odradek.extras import extra

with extra("connect-iceberg"):
    import pyarrow as pa
    from pyiceberg.io.fileformat import FileFormatFactory
    from pyiceberg.io.pyarrow import (
        MetricModeTypes,
        ParquetFormatModel,
        ParquetFormatWriter,
        compute_statistics_plan,
        parquet_path_to_id_mapping,
    )
    from pyiceberg.manifest import FileFormat

_BOUNDED = (MetricModeTypes.FULL, MetricModeTypes.TRUNCATE)


class _Statistics:
    """The part of pyiceberg.io.fileformat.DataFileStatistics that PyIceberg needs for an entry of a manifest."""

    def __init__(self, entry: dict[str, Any]) -> None:
        self._entry = entry

    def to_serialized_dict(self) -> dict[str, Any]:
        return self._entry


class _Writer(ParquetFormatWriter):
    """Writes one table into a Parquet file."""

    def write(self, table: pa.Table) -> None:
        self._parquet_writer_kwargs["write_statistics"] = columns_with_bounds(table) or False
        super().write(table)

    def close(self) -> Any:
        if self._result is None:
            writer, file = cast(Any, self._writer), cast(Any, self._fos)
            with file:
                writer.close()
            plan = compute_statistics_plan(self._file_schema, self._properties).values()
            ids = parquet_path_to_id_mapping(self._file_schema)
            wanted = {column.field_id for column in plan if column.mode.type != MetricModeTypes.NONE}
            bounded = {column.field_id: column.iceberg_type for column in plan if column.mode.type in _BOUNDED}
            metrics = metrics_of(
                writer.writer.metadata,
                {path: id for path, id in ids.items() if id in wanted},
                {path: bounded[id] for path, id in ids.items() if id in bounded},
            )
            self._result = cast(Any, _Statistics(metrics._asdict()))
        return self._result


class _Parquet(ParquetFormatModel):
    def create_writer(self, output_file: Any, file_schema: Any, properties: Any) -> ParquetFormatWriter:
        return _Writer(output_file, file_schema, properties)


def use() -> None:
    """Let PyIceberg write its Parquet files by this module, in this process."""
    FileFormatFactory._registry[FileFormat.PARQUET] = _Parquet()
