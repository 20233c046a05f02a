"""The view of a topic with the columns of a stream or table, and those of scope.py."""

from __future__ import annotations

from odradek.sql.catalog import Column, Source
from odradek.sql.formats import EPOCH, decoders, window_bounds
from odradek.sql.functions.signature import text_of as literal
from odradek.sql.functions.times import time_read
from odradek.sql.plan import Input
from odradek.sql.planning import headers
from odradek.sql.types import quote

_LATEST = (
    "(SELECT latest.* FROM (SELECT max_by(struct(key, value, timestamp, partition, offset{headers}), offset) AS latest "
    "FROM {records} WHERE key IS NOT NULL GROUP BY key))"
)
# Of several records of a key with one time the last one counts.
_VERSIONS = (
    "(SELECT *, lead(timestamp) OVER (PARTITION BY key ORDER BY timestamp, offset) AS __until, "
    "max(timestamp) OVER (PARTITION BY 1) AS __newest FROM {records} WHERE key IS NOT NULL)"
)


def plan_input(
    source: Source,
    number: int,
    read: str,
    watermark_ms: int | None,
    *,
    pass_nulls: bool = False,
    pass_headers: bool = False,
) -> Input:
    """Plan an input of a query.

    Args:
        number: its position in the query, from 1.
        read: stream, batch, table (the latest record of each key), or history (all versions of it).
        watermark_ms: None for no watermark.
        pass_nulls: keep records of a stream without a value; they are __deleted.
        pass_headers: have the headers of records as __headers.
    """
    records = f"records_{number}"
    reading = decoders(source, f"{number}")
    steps, reads, healthy = reading.steps, reading.columns, reading.healthy
    has_headers = pass_headers or any(each.is_header for each in source.columns)
    start = {"table": _LATEST, "history": _VERSIONS}.get(read, "{records}")
    start = start.format(records=records, headers=", headers" if has_headers else "")
    inner = f"(SELECT *, {steps} FROM {start})" if steps else start
    time = _event_time(source, reads)
    reads |= {each.name: _header(each) for each in source.columns if each.header is not None}
    columns = [f"{reads[each.name]} AS {quote(each.name)}" for each in source.columns]
    columns += [f"{time} AS __time", "partition AS __partition", "offset AS __offset"]
    columns += [f"{headers.packed('headers')} AS __headers"] if pass_headers else []
    conditions = [healthy] if healthy else []
    if source.kind == "TABLE":
        conditions.append("key IS NOT NULL" if read == "stream" else "value IS NOT NULL")
        if read == "stream":
            columns.append("value IS NULL AS __deleted")
    elif pass_nulls:
        columns.append("value IS NULL AS __deleted")
    elif source.values:
        conditions.append("value IS NOT NULL")
    if read == "history":
        columns += ["__until", "__newest"]
    if source.window:
        first, last = window_bounds(source)
        columns += [f"{first} AS __window_start", f"{last} AS __window_end"]
    if source.timestamp:
        time = f"coalesce({time}, IF(value IS NULL, timestamp, NULL))" if pass_nulls else time
        conditions.append(f"{time} >= {EPOCH}" if source.kind == "STREAM" else "TRUE")
    conditions = [each for each in conditions if each != "TRUE"]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    sql = f"SELECT {', '.join(columns)} FROM {inner}{where}"
    return Input(
        source.topic,
        read,
        records,
        f"input_{number}",
        sql,
        watermark_ms,
        reading.codecs,
        has_headers,
        source.history_ms if read == "history" else 0,
    )


def _header(column: Column) -> str:
    """Return all headers of a record, or the value of the last one of a name."""
    if not column.header:
        return "transform(headers, h -> named_struct('KEY', h.key, 'VALUE', h.value))"
    return f"try_element_at(filter(headers, h -> h.key = {literal(column.header)}), -1).value"


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
        found = time_read(read, source.timestamp_format)
    # A tombstone has no column with a time.
    return f"coalesce({found}, timestamp)" if source.kind == "TABLE" else found
