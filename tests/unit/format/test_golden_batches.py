"""Batches that kafka-python, aiokafka and librdkafka wrote: we read them, and write the same bytes where nothing is
compressed. tests/golden/make_golden.py makes the files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from odradek.format.record_batch import (
    RecordBatchBuilder,
    decode_batch,
    encode_batch,
    parse_header,
    validate_batches,
)
from odradek.model.record import CompressionType, Record

GOLDEN = Path(__file__).parents[2] / "golden"
INDEX = json.loads((GOLDEN / "golden.json").read_text())
BATCHES = INDEX["batches"]
PRODUCER_FIELDS = ("producer_id", "producer_epoch", "base_sequence")


def records_of(entry: dict[str, Any]) -> list[Record]:
    rows = INDEX["many"] if entry["records"] == "many" else entry["records"]
    return [
        Record(offset, timestamp, unhex(key), unhex(value), tuple((name, unhex(content)) for name, content in headers))
        for offset, timestamp, key, value, headers in rows
    ]


def unhex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def bytes_of(entry: dict[str, Any]) -> bytes:
    return (GOLDEN / "batches" / entry["file"]).read_bytes()


@pytest.mark.parametrize("entry", BATCHES, ids=lambda entry: entry["file"][:-4])
def test_a_batch_of_another_client_is_accepted_and_read(entry: dict[str, Any]) -> None:
    data = bytes_of(entry)
    ((position, header),) = validate_batches(data, max_message_bytes=len(data))
    assert position == 0
    assert header.compression is CompressionType[entry["codec"].upper()]
    assert {name: getattr(header, name) for name in PRODUCER_FIELDS} == entry["producer"]
    assert decode_batch(data) == records_of(entry)


@pytest.mark.parametrize(
    "entry", [entry for entry in BATCHES if entry["codec"] == "none"], ids=lambda entry: entry["file"][:-4]
)
def test_our_uncompressed_batch_is_theirs_byte_for_byte(entry: dict[str, Any]) -> None:
    data = bytes_of(entry)
    leader_epoch = parse_header(data).partition_leader_epoch  # librdkafka leaves 0, the others -1; a log sets it
    builder = RecordBatchBuilder()
    for record in records_of(entry):
        builder.append(record.timestamp_ms, record.key, record.value, record.headers)
    assert builder.build(**entry["producer"])[16:] == data[16:]
    assert encode_batch(records_of(entry), leader_epoch=leader_epoch, **entry["producer"]) == data


def test_every_client_and_codec_is_there() -> None:
    client_codecs = {(entry["client"], entry["codec"]) for entry in BATCHES}
    codecs = {"none", "gzip", "snappy", "lz4", "zstd"}
    assert {codec for client, codec in client_codecs if client == "librdkafka"} == codecs
    assert {codec for client, codec in client_codecs if client == "aiokafka"} == codecs
    assert {client for client, _ in client_codecs} == {"librdkafka", "aiokafka", "kafka-python"}
