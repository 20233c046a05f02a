"""Make the golden bytes: record batches as other Kafka clients write them, and what is in them.

    python -m tests.golden.make_golden

writes tests/golden/batches/<client>-<codec>-<case>.bin and tests/golden/golden.json. kafka-python and aiokafka build
batches by their own record builders; confluent-kafka (librdkafka) sends them to a small broker on this machine. The
files are committed: run this again only to add cases or newer clients.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kafka.errors import UnsupportedCodecError

from tests.golden.capture_broker import CaptureBroker

HERE = Path(__file__).parent
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
Row = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]

BASE_MS = 1_356_998_400_000  # 2013-01-01
PLAIN: list[Row] = [
    (BASE_MS, b"N14228", b'{"origin":"EWR"}', []),
    (BASE_MS + 70, None, b"null key", []),
    (BASE_MS - 70, b"tombstone", None, []),
    (BASE_MS + 64, b"", b"", []),
    (BASE_MS + 8192, b"k", b"repeat " * 200, []),
    (BASE_MS - 123_456_789, "Kavka č".encode(), b"\x00\xff\x80\x7f", []),
]
HEADERS: list[Row] = [
    (BASE_MS, b"a", b"one", [("h", b"v")]),
    (BASE_MS + 1, b"b", b"two", [("h", b"v"), ("h", b"again"), ("empty", b""), ("null", None), ("ž", b"\x00")]),
    (BASE_MS + 2, None, None, [(f"h{i}", b"x" * i) for i in range(70)]),
    (BASE_MS + 3, b"c", b"none", []),
]
# Not -1, which both builders take for "no timestamp".
BEFORE_1970: list[Row] = [(-2 - i * 1_000_000_007, b"%d" % i, b"old " * 50, []) for i in range(5)]
MANY: list[Row] = [(BASE_MS + i * 17 % 1000, b"%d" % (i % 50), b"value %d" % i, []) for i in range(300)]
CASES = {"plain": PLAIN, "headers": HEADERS, "many": MANY}
IDEMPOTENT = {"producer_id": 4711, "producer_epoch": 3, "base_sequence": 0}
NO_PRODUCER = {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1}


def from_builder(make_builder: Any, codec: int, rows: list[Row], producer: dict[str, int]) -> bytes:
    builder = make_builder(2, codec, False, *producer.values(), 1 << 20)
    for offset, (timestamp, key, value, headers) in enumerate(rows):
        assert builder.append(offset, timestamp, key, value, headers) is not None
    return bytes(builder.build())


def builder_batches(client: str, make_builder: Any) -> Iterator[tuple[str, str, str, list[Row], dict[str, int], bytes]]:
    for codec, number in CODECS.items():
        for case, rows in {**CASES, "before1970": BEFORE_1970}.items():
            try:
                data = from_builder(make_builder, number, rows, NO_PRODUCER)
            except UnsupportedCodecError:
                print(f"{client} has no library for {codec} here: left out")
                break
            yield client, codec, case, rows, NO_PRODUCER, data
    yield client, "none", "idempotent", PLAIN, IDEMPOTENT, from_builder(make_builder, 0, PLAIN, IDEMPOTENT)


def librdkafka_batches() -> Iterator[tuple[str, str, str, list[Row], dict[str, int], bytes]]:
    for codec in CODECS:
        for case, rows in {**CASES, "idempotent": PLAIN}.items():
            is_idempotent = case == "idempotent"
            # A busy machine may cut the rows into more batches: try again.
            attempts = (produce(codec, rows, is_idempotent) for _ in range(20))
            captured = next(data for data in attempts if data is not None)
            yield "librdkafka", codec, case, rows, IDEMPOTENT if is_idempotent else NO_PRODUCER, captured


def produce(codec: str, rows: list[Row], is_idempotent: bool) -> bytes | None:
    """The rows as librdkafka sends them, or None where it sent them in more than one batch."""
    import confluent_kafka

    with CaptureBroker() as broker:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": broker.address,
                "compression.type": codec,
                "linger.ms": 2_000,
                "enable.idempotence": is_idempotent,
                "message.timeout.ms": 20_000,
                "log_level": 0,
            }
        )
        for timestamp, key, value, headers in rows:
            producer.produce("golden", value, key, partition=0, timestamp=timestamp, headers=headers or None)
        left = producer.flush(30)
        assert left == 0, f"{left} messages of {codec} were not taken"
        return broker.captured[0] if len(broker.captured) == 1 else None


def main() -> None:
    from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

    folder = HERE / "batches"
    folder.mkdir(exist_ok=True)
    entries = []
    versions = {
        "kafka-python": version("kafka-python"),
        "aiokafka": version("aiokafka"),
        "librdkafka": version("confluent-kafka"),
    }
    sources = [
        builder_batches("kafka-python", lambda *a: KafkaPythonBuilder(*a)),
        builder_batches(
            "aiokafka",
            lambda magic, codec, transactional, *batch_options: AiokafkaBuilder(
                magic, codec, transactional, *batch_options[:3], batch_options[3]
            ),
        ),
        librdkafka_batches(),
    ]
    for source in sources:
        for client, codec, case, rows, producer, data in source:
            name = f"{client}-{codec}-{case}.bin"
            (folder / name).write_bytes(data)
            entries.append(
                {"file": name, "client": client, "codec": codec, "case": case, "producer": producer}
                | {"records": [_as_json(offset, row) for offset, row in enumerate(rows)] if case != "many" else "many"}
            )
    text = json.dumps({"clients": versions, "many": [_as_json(o, r) for o, r in enumerate(MANY)], "batches": entries})
    (HERE / "golden.json").write_text(text.replace('{"file"', '\n{"file"') + "\n")
    print(f"{len(entries)} batches in {folder}")


def _as_json(offset: int, row: Row) -> list[Any]:
    timestamp, key, value, headers = row
    return [offset, timestamp, _hex(key), _hex(value), [[name, _hex(content)] for name, content in headers]]


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


if __name__ == "__main__":
    main()
