"""The topic of a stream or table, and the way of a result's rows into it."""

from __future__ import annotations

from odradek.sql.catalog import Source
from odradek.sql.formats import EPOCH, encode, with_window
from odradek.sql.functions.times import time_read
from odradek.sql.plan import RESULT, Sink, Topic
from odradek.sql.planning import headers
from odradek.sql.query import Planned
from odradek.sql.types import quote


def topic_of(source: Source, like: str, retention_ms: int | None = None) -> Topic:
    configs: dict[str, str] = {}
    if source.kind == "TABLE":
        configs["cleanup.policy"] = "compact,delete" if source.window else "compact"
    retention = source.retention_ms or retention_ms
    if retention is not None:
        configs["retention.ms"] = str(retention)
    return Topic(source.topic, source.partitions, tuple(configs.items()), like)


def sink_of(target: Source, planned: Planned | None, timestamped: Source, topic: Topic) -> Sink:
    """Return the way from the result to records. Columns of the result are found by name, in any order."""
    keys = [(each.name, each.type) for each in target.keys]
    values = [(each.name, each.type) for each in target.values]
    casts = ", ".join(f"CAST({quote(each.name)} AS {each.type.spark}) AS {quote(each.name)}" for each in target.columns)
    extra = "__time"
    if planned is not None:
        extra += ", __keep" if planned.has_keep else ""
        extra += ", __headers" if planned.has_headers else ""
        extra += ", __window_start, __window_end" if target.window else ""
    key, key_codecs = encode(target, "key", keys, is_always=planned is not None and planned.keeps_empty_key)
    if target.window:
        key = with_window(key, target.window, "unix_millis(__window_start)", "unix_millis(__window_end)")
    value, value_codecs = encode(target, "value", values)
    if planned is not None and planned.has_keep:
        value = f"IF(__keep, {value}, NULL)"
    time, where = "__time", ""
    if timestamped.timestamp:
        column = timestamped.column(timestamped.timestamp)
        assert column is not None
        time = quote(column.name)
        if column.type.name == "BIGINT":
            time = f"timestamp_millis({time})"
        elif column.type.name == "VARCHAR":
            time = time_read(time, timestamped.timestamp_format)
        # A record without a time is dropped, but a tombstone has no columns to tell it.
        has_time = f"{time} >= {EPOCH}"
        if planned is not None and planned.has_keep:
            time, has_time = f"IF(__keep, {time}, __time)", f"(NOT __keep OR {has_time})"
        where = f" WHERE {has_time}"
    rows = f"(SELECT {casts}, {extra} FROM {RESULT})"
    has_headers = planned is not None and planned.has_headers
    more = f", {headers.unpacked('__headers')} AS headers" if has_headers else ""
    sql = f"SELECT {key} AS key, {value} AS value, {time} AS timestamp{more} FROM {rows}{where}"
    return Sink(topic, sql, (*key_codecs, *value_codecs))
