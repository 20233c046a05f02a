"""Records from a form or from lines of JSON."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass

from odradek.errors import ErrorCode, KafkaError
from odradek.operations.cluster import Cluster
from odradek.operations.records.formats import encode
from odradek.operations.records.lines import JsonRecord, from_json

RECORDS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Produced:
    """Partition and offset of records that were written."""

    records: int
    partition: int  # of the first record
    offset: int  # of the first record


@dataclass(frozen=True, slots=True)
class RecordForm:
    """A record as a person writes it; None is null. `key_form` and `value_form` are names of formats.FORMATS."""

    key: str | None
    value: str | None
    headers: str = ""  # lines of `name: value`, or `name` for null
    key_form: str = "text"
    value_form: str = "text"
    key_subject: str = ""  # for avro and protobuf; "" takes <topic>-key
    value_subject: str = ""  # "" takes <topic>-value


def parse_headers(text: str) -> list[tuple[str, bytes | None]]:
    """Parse lines of `name: value`. Raises KafkaError(INVALID_RECORD) for a line without a name."""
    found: list[tuple[str, bytes | None]] = []
    for line in filter(str.strip, text.splitlines()):
        name, colon, value = line.partition(":")
        if not name.strip():
            raise KafkaError(ErrorCode.INVALID_RECORD, f"invalid header {line[:60]!r}: use name: value")
        found.append((name.strip(), value.strip().encode() if colon else None))
    return found


async def encoded(cluster: Cluster, topic: str, form: RecordForm) -> JsonRecord:
    """Return the record of a form as bytes. Raises KafkaError(INVALID_RECORD) that says what does not fit."""
    registry = None
    if {form.key_form, form.value_form} & {"avro", "protobuf"}:
        registry = await cluster.registry()
    key = await asyncio.to_thread(encode, form.key, form.key_form, registry, form.key_subject or f"{topic}-key")
    value = await asyncio.to_thread(
        encode, form.value, form.value_form, registry, form.value_subject or f"{topic}-value"
    )
    return JsonRecord(key, value, parse_headers(form.headers), None)


def parse_lines(text: str) -> list[JsonRecord]:
    """Parse records, a JSON object in each line (lines.from_json). Raises KafkaError that names the line."""
    lines = [(number, line) for number, line in enumerate(re.split(r"\r?\n", text), 1) if line.strip()]
    if len(lines) > RECORDS_MAX:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"there are {len(lines)} lines: send at most {RECORDS_MAX}, or use `odradek produce`",
        )
    records = []
    for number, line in lines:
        try:
            records.append(from_json(line.encode()))
        except KafkaError as error:
            raise KafkaError(error.code, f"line {number}: {error.message}; nothing was written") from error
    if not records:
        raise KafkaError(ErrorCode.INVALID_RECORD, "there are no records: write one JSON object a line")
    return records


async def produce(
    cluster: Cluster, topic: str, records: Sequence[JsonRecord], *, partition: int | None = None
) -> Produced:
    """Write records and wait until they are stored.

    Args:
        partition: None chooses by key.

    Raises:
        KafkaError: of the first record that was refused; the others may have been written.
    """
    async with cluster.producer(linger_ms=0) as producer:
        futures = [
            await producer.send(
                topic,
                record.value,
                record.key,
                headers=record.headers,
                partition=partition,
                timestamp_ms=record.timestamp_ms,
            )
            for record in records
        ]
        outcomes = [await future for future in futures]
    first = outcomes[0]
    return Produced(len(outcomes), first.partition, first.offset)
