"""How fast is the codec, on one core, beside the codecs of aiokafka and kafka-python?

    python -m bench.engine.codec [--quick] [--json PATH]

Encodes and decodes batches of about 1 MB with 8-byte keys; a figure is the best of several runs, in million records a
second. Every path makes or reads the same records, CRC-32C included; compressed ones hold JSON, the others
incompressible bytes. `to Arrow` ends with a pyarrow.RecordBatch, the others with Python objects.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
from odradek.columnar.decode import decode_to_arrow
from odradek.columnar.encode import encode_from_arrow
from odradek.format.record_batch import RecordBatchBuilder, decode_batch, decode_rows, parse_header
from odradek.model.record import CompressionType

SIZES = {"100 B": 100, "1 KiB": 1024}
BATCH_BYTES = 1_000_000
BASE_MS = 1_700_000_000_000
REAL_CODECS = [codec for codec in CompressionType if codec is not CompressionType.NONE]
Job = Callable[[], object]


def main(argv: list[str] | None = None) -> None:
    """Run the bench, print the table and write it as JSON."""
    parser = argparse.ArgumentParser(prog="bench.engine.codec", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer repeats: under a minute")
    parser.add_argument("--json", type=Path, default=Path(__file__).parents[1] / "results" / "codec.json")
    options = parser.parse_args(argv)
    seconds = 0.15 if options.quick else 1.0
    table: dict[str, dict[str, float]] = {}
    for column, size in SIZES.items():
        for name, count, job in jobs(size):
            table.setdefault(name, {})[column] = count / best_of(job, seconds) / 1e6
    print(render(table))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"unit": "million records/s, best of", "table": table} | machine(), indent=1))
    print(f"\nwritten to {options.json}")


def jobs(size: int) -> list[tuple[str, int, Job]]:
    """(name, records a run, what to run) for values of that size."""
    count = BATCH_BYTES // (size + 20)
    chance = random.Random(7)
    keys = [chance.randbytes(8) for _ in range(count)]
    values = [chance.randbytes(size) for _ in range(count)]
    texts = [_json_value(number, size, chance) for number in range(count)]
    arrow, json_arrow = _table(keys, values), _table(keys, texts)
    (batch,) = encode_from_arrow(arrow, default_timestamp_ms=0, max_batch_bytes=2 * BATCH_BYTES)
    jobs: list[tuple[str, int, Job]] = [
        ("encode  odradek builder (pure Python)", count, lambda: _build(keys, values)),
        ("encode  odradek from Arrow, numba", count, lambda: _from_arrow(arrow)),
        ("encode  odradek from Arrow, python", count, lambda: _from_arrow(arrow, engine="python")),
        *_peer_encoders(keys, values),
        ("decode  odradek records (pure Python)", count, lambda: decode_batch(batch)),
        ("decode  odradek rows (pure Python)", count, lambda: decode_rows(batch, 0, parse_header(batch))),
        ("decode  odradek to Arrow, numba", count, lambda: _to_arrow(batch)),
        ("decode  odradek to Arrow, numba, no CRC", count, lambda: _to_arrow(batch, verify_crc=False)),
        ("decode  odradek to Arrow, only timestamps", count, lambda: _to_arrow(batch, columns=["timestamp"])),
        ("decode  odradek to Arrow, python", count, lambda: _to_arrow(batch, engine="python")),
        *_peer_decoders(batch, count),
    ]
    for codec in REAL_CODECS:
        name = codec.name.lower()
        (packed,) = _from_arrow(json_arrow, compression_type=codec)
        jobs += [
            (
                f"encode  odradek from Arrow, numba, {name}",
                count,
                lambda codec=codec: _from_arrow(json_arrow, compression_type=codec),  # type: ignore[misc]
            ),
            (f"decode  odradek to Arrow, numba, {name}", count, lambda packed=packed: _to_arrow(packed)),  # type: ignore[misc]
        ]
    return jobs


def best_of(job: Job, seconds: float) -> float:
    """The shortest run, of at least three and of as many as fit the time. Another process cannot make a run shorter."""
    job()
    best, runs, end = float("inf"), 0, time.perf_counter() + seconds
    while runs < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        job()
        best = min(best, time.perf_counter() - start)
        runs += 1
    return best


def render(table: dict[str, dict[str, float]]) -> str:
    """The table as text."""
    width = max(map(len, table)) + 2
    lines = ["M records/s".ljust(width) + "".join(column.rjust(10) for column in SIZES)]
    for direction in ("encode", "decode"):
        lines.append("")
        for name, row in table.items():
            if name.startswith(direction):
                lines.append(name.ljust(width) + "".join(f"{row[column]:10.2f}" for column in SIZES))
    return "\n".join(lines)


def machine() -> dict[str, Any]:
    """Return the machine and the versions that the figures were made with."""
    packages = ("aiokafka", "kafka-python", "numba", "pyarrow", "cramjam", "crc32c")
    return {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "packages": {name: version(name) for name in packages},
    }


def _json_value(number: int, size: int, chance: random.Random) -> bytes:
    text = json.dumps({"flight": number, "delay": chance.randint(-20, 300), "origin": chance.choice(["EWR", "JFK"])})
    while len(text) < size:
        text += json.dumps({"temp": chance.randint(0, 100), "wind": chance.randint(0, 40)})
    return text[:size].encode()


def _table(keys: list[bytes], values: list[bytes]) -> pa.Table:
    timestamps = pa.array(range(BASE_MS, BASE_MS + len(keys)), pa.timestamp("ms"))
    return pa.table(
        {"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary()), "timestamp": timestamps}
    )


def _build(keys: list[bytes], values: list[bytes]) -> bytes:
    builder = RecordBatchBuilder()
    append = builder.append
    for number, key in enumerate(keys):
        append(BASE_MS + number, key, values[number])
    return builder.build()


def _from_arrow(table: pa.Table, **options: Any) -> list[bytes]:
    return encode_from_arrow(table, default_timestamp_ms=0, max_batch_bytes=2 * BATCH_BYTES, **options)


def _to_arrow(batch: bytes, **options: Any) -> pa.RecordBatch:
    return decode_to_arrow(batch, topic="bench", partition=0, **options)


def _peer_encoders(keys: list[bytes], values: list[bytes]) -> list[tuple[str, int, Job]]:
    from aiokafka.record.default_records import DefaultRecordBatchBuilder as Aiokafka
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPython

    def encode(make: Any) -> Job:
        def run() -> bytes:
            builder = make(2, 0, False, -1, -1, -1, 2 * BATCH_BYTES)
            for number, key in enumerate(keys):
                builder.append(number, BASE_MS + number, key, values[number], [])
            return bytes(builder.build())

        return run

    return [
        ("encode  aiokafka builder (Cython)", len(keys), encode(Aiokafka)),
        ("encode  kafka-python builder", len(keys), encode(KafkaPython)),
    ]


def _peer_decoders(batch: bytes, count: int) -> list[tuple[str, int, Job]]:
    from aiokafka.record.default_records import DefaultRecordBatch as Aiokafka
    from kafka.record.default_records import DefaultRecordBatch as KafkaPython

    def decode(make: Any) -> Job:
        def run() -> list[Any]:
            records = make(batch)
            assert records.validate_crc()
            return [(record.offset, record.timestamp, record.key, record.value) for record in records]

        return run

    def aiokafka_to_arrow() -> pa.RecordBatch:
        records = Aiokafka(batch)
        assert records.validate_crc()
        rows = [(record.key, record.value, record.offset, record.timestamp) for record in records]
        return pa.RecordBatch.from_arrays(
            [pa.array(column) for column in zip(*rows, strict=True)], names=["key", "value", "offset", "timestamp"]
        )

    return [
        ("decode  aiokafka (Cython)", count, decode(Aiokafka)),
        ("decode  aiokafka (Cython) to Arrow", count, aiokafka_to_arrow),
        ("decode  kafka-python", count, decode(KafkaPython)),
    ]


if __name__ == "__main__":
    main()
