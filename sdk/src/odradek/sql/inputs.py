"""The view of a topic with the columns of a stream or table, and those of scope.py."""

from __future__ import annotations

from odradek.sql.catalog import Source
from odradek.sql.formats import decoders, literal, window_bounds
from odradek.sql.plan import Input
from odradek.sql.types import quote

_LATEST = (
    "(SELECT latest.* FROM (SELECT max_by(struct(key, value, timestamp, partition, offset), offset) AS latest "
    "FROM {records} WHERE key IS NOT NULL GROUP BY key))"
)


def plan_input(source: Source, number: int, read: str, watermark_ms: int | None) -> Input:
    """Plan an input of a query.

    Args:
        number: its position in the query, from 1.
        read: stream, batch, or table (the latest record of each key).
        watermark_ms: None for no watermark.
    """
    records = f"records_{number}"
    steps, reads, healthy = decoders(source)
    start = _LATEST.format(records=records) if read == "table" else records
    inner = f"(SELECT *, {steps} FROM {start})" if steps else start
    time = _event_time(source, reads)
    columns = [f"{reads[each.name]} AS {quote(each.name)}" for each in source.columns]
    columns += [f"{time} AS __time", "partition AS __partition", "offset AS __offset"]
    conditions = [healthy] if healthy else []
    if source.kind == "TABLE":
        conditions.append("key IS NOT NULL" if read == "stream" else "value IS NOT NULL")
        if read == "stream":
            columns.append("value IS NULL AS __deleted")
    elif source.values:
        conditions.append("value IS NOT NULL")
    if source.window:
        first, last = window_bounds(source)
        columns += [f"{first} AS __window_start", f"{last} AS __window_end"]
    if source.timestamp:
        conditions.append(f"{time} IS NOT NULL" if source.kind == "STREAM" else "TRUE")
    conditions = [each for each in conditions if each != "TRUE"]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    sql = f"SELECT {', '.join(columns)} FROM {inner}{where}"
    return Input(source.topic, read, records, f"input_{number}", sql, watermark_ms)


def _event_time(source: Source, reads: dict[str, str]) -> str:
    if not source.timestamp:
        return "timestamp"
    column = source.column(source.timestamp)
    assert column is not None
    read = reads[column.name]
    if column.type.name == "BIGINT":
        found = f"timestamp_millis({read})"
    elif column.type.name == "TIMESTAMP":
        found = read
    else:
        found = f"try_to_timestamp({read}, {literal(source.timestamp_format)})"
    # A tombstone has no column with a time.
    return f"coalesce({found}, timestamp)" if source.kind == "TABLE" else found
