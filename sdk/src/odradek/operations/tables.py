"""Served tables: the latest row of each key of a compacted topic, read by key; and files of table topics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from odradek.client.admin.admin import Admin
from odradek.errors import ErrorCode, KafkaError
from odradek.model.table import (
    LIMIT_DEFAULT,
    ServedTable,
    TableAnswer,
    TableChange,
    TablePartition,
    TableRow,
    TableStatus,
    plain,
)
from odradek.operations.places import parse_time


@dataclass(frozen=True, slots=True)
class TableListing:
    """A table in a list."""

    name: str
    topic: str
    state: str  # ENABLED or STOPPED
    key_format: str
    value_format: str
    window: str  # TUMBLING, HOPPING, SESSION; empty: none


@dataclass(frozen=True, slots=True)
class TableDetail:
    """A table with its options, and how far it follows its topic."""

    table: ServedTable
    state: str  # ENABLED, STOPPED, or NO_TOPIC
    lag: int
    changes: int  # records that were applied
    too_large: int  # records whose row a table cannot store
    unusable: int  # records without a key or a window
    last_error: str
    partitions: tuple[TablePartition, ...]


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows of a table.

    Attributes:
        rows: with key, value, window, partition, offset, timestamp_ms and error (odradek.model.table.TableRow).
        covered: per partition, the offset below which every record is in these rows.
        cursor: of the next page of a range; empty: there is none.
    """

    rows: tuple[TableRow, ...]
    covered: Mapping[int, int]
    cursor: str = ""


async def list_tables(admin: Admin) -> list[TableListing]:
    """The served tables that the caller may describe, by name."""
    return [
        TableListing(each.name, each.topic, str(each.state), str(each.key_format), str(each.value_format), each.window)
        for each in await admin.list_tables()
    ]


async def describe_table(admin: Admin, name: str) -> TableDetail:
    """One table. Raises KafkaError(RESOURCE_NOT_FOUND)."""
    return detail_of(await admin.describe_table(name))


def detail_of(status: TableStatus) -> TableDetail:
    """Return the details of a table for people. Pure."""
    return TableDetail(
        status.table,
        status.state,
        status.lag,
        sum(each.changes for each in status.partitions),
        sum(each.too_large for each in status.partitions),
        sum(each.unusable for each in status.partitions),
        status.last_error,
        tuple(status.partitions),
    )


async def get_row(
    admin: Admin,
    name: str,
    key: str,
    *,
    window: str = "",
    start: str = "",
    end: str = "",
    min_offset: Sequence[str] = (),
    wait_ms: int | None = None,
) -> TableRows:
    """The rows of a key: one at most, or one for each window.

    Args:
        key: as text; a JSON key as JSON, bytes in base64.
        window: the start of one window: ms since the epoch, or 2026-11-23T09:30:00.
        start, end: windows that start in [start, end).
        min_offset: records that must be in the answer, each PARTITION:OFFSET.
        wait_ms: how long to wait for them; None: five seconds.

    Raises KafkaError: INVALID_CONFIG, RESOURCE_NOT_FOUND, OFFSET_NOT_AVAILABLE ...
    """
    return _rows(
        await admin.get_row(
            name,
            key,
            window=_time(window, "--window"),
            from_ms=_time(start, "--from"),
            to_ms=_time(end, "--to"),
            min_offset=parse_offsets(min_offset, "--min-offset"),
            wait_ms=wait_ms,
        )
    )


async def get_many(admin: Admin, name: str, keys: Sequence[str], *, min_offset: Sequence[str] = ()) -> list[TableRows]:
    """The rows of up to 100 keys, in their order. Raises KafkaError."""
    offsets = parse_offsets(min_offset, "--min-offset")
    return [_rows(each) for each in await admin.get_rows(name, keys, min_offset=offsets)]


async def range_rows(
    admin: Admin,
    name: str,
    first: str | None = None,
    before: str | None = None,
    *,
    prefix: str | None = None,
    start: str = "",
    end: str = "",
    limit: int = LIMIT_DEFAULT,
    cursor: str = "",
    min_offset: Sequence[str] = (),
) -> TableRows:
    """A page of rows in the order of their keys; a page may have fewer rows than `limit`, and still a cursor.

    Args:
        first, before: the first key, and the key before which the range ends; None: no bound.
        prefix: of all keys, instead of these.
        start, end: windows that start in [start, end).
        cursor: of the page before.
    """
    return _rows(
        await admin.range_rows(
            name,
            first,
            before,
            prefix=prefix,
            from_ms=_time(start, "--from-window"),
            to_ms=_time(end, "--to-window"),
            limit=limit,
            cursor=cursor,
            min_offset=parse_offsets(min_offset, "--min-offset"),
        )
    )


async def changes(admin: Admin, name: str, key: str | None = None) -> AsyncIterator[TableChange]:
    """Changes of a table, or of a key, from now on, without end."""
    _, after = await admin.table_changes(name, key)
    while True:
        found, after = await admin.table_changes(name, key, after=after)
        for each in found:
            yield each


async def flush(admin: Admin, topic: str, now_ms: int) -> None:
    """Have everything that a table topic has now written as Parquet files by the next runs of maintenance.

    Raises KafkaError: INVALID_CONFIG for a topic that is no table; UNKNOWN_TOPIC_OR_PARTITION ...
    """
    [configs] = (await admin.describe_configs([topic])).values()
    if configs["odradek.table.enable"].value != "true":
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{topic} is not a table topic: `odradek topics alter {topic} --config odradek.table.enable=true` first",
        )
    await admin.alter_topic_configs(topic, {"odradek.table.flush.ms": str(now_ms)})


def parse_offsets(texts: Sequence[str], option: str) -> dict[int, int]:
    """Offsets by partition. Raises KafkaError(INVALID_CONFIG)."""
    offsets = {}
    for text in texts:
        partition, colon, offset = text.rpartition(":")
        if not offset.isdecimal() or not (partition or "0").isdecimal() or (colon and not partition):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{option} is PARTITION:OFFSET, not {text!r}")
        offsets[int(partition or 0)] = int(offset)
    return offsets


def _time(text: str, option: str) -> int | None:
    return parse_time(text, option) if text else None


def _rows(answer: TableAnswer) -> TableRows:
    return TableRows(tuple(answer.rows), answer.covered, answer.cursor)


def row_document(row: TableRow | TableChange) -> dict[str, Any]:
    """A row or a change as `--output json` prints it."""

    return plain(row)
