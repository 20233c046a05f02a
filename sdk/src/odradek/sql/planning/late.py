"""Windows and joins of streams over records that know their stream time: what is late is left out. Pure.

    tumbling, hopping    a record is late for a window if   end + grace           <= stream time
    session              for a session of its own, if       time + gap + grace    <  stream time
    inner join           if                                 time + before + after + grace <= stream time

These are the bounds of Kafka Streams. A late record of a join matches nothing. Spark's watermark only says when state
may go: it follows the partition that is behind, so it drops nothing that is not late here (running/observed.py). Outer
joins of streams are joined on arrival (planning/eager.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from odradek.sql.formats import interval
from odradek.sql.plan import Input
from odradek.sql.scope import Bound
from odradek.sql.syntax import Join, Window, Within
from odradek.sql.types import quote

GRACE_MS = 24 * 3_600_000  # ksqlDB's default, of windows less their size
_TICK = interval(1)


def grace_ms(window: Window, emit: str = "CHANGES") -> int:
    """Return how late a record of a window may be; by default what its size leaves of 24 hours, or FINAL: 0."""
    if window.grace is not None:
        return window.grace.ms
    return 0 if emit == "FINAL" else max(GRACE_MS - window.size.ms, 0)


def join_ms(within: Within) -> int:
    """Return how long after its time a record of a join is kept for those that match it."""
    size = within.before.ms + within.after.ms
    return max(GRACE_MS, size) if within.grace is None else size + within.grace.ms


def spark_window(window: Window, time: str) -> str:
    """Return Spark's window, or session, of a time."""
    if window.kind == "SESSION":
        return f"session_window({time}, {_length(window.size.ms)})"  # a record at the end of the gap still belongs
    advance = f", {_length(window.advance.ms)}" if window.advance is not None else ""
    return f"window({time}, {_length(window.size.ms)}{advance})"


def windowed(given: Input, bound: Bound, window: Window, where: str, used: Iterable[str]) -> tuple[Input, str, str]:
    """Return the input of an aggregate over windows of a stream, FROM, and WHERE.

    Args:
        given: its watermark stays behind stream time by the grace period.
        where: of the query. What does not meet it does not exist for stream time, as in Kafka Streams.
        used: all texts of the query that name columns.
    """
    alias, grace = bound.quoted, given.watermark_ms or 0
    if window.kind == "SESSION":
        on_time = f"SELECT * FROM {{view}} WHERE unix_millis(__time) + {window.size.ms + grace} >= __stream_ms"
        # Spark closes a session at the time at which a record is not late yet.
        behind = replace(given, watermark_ms=grace + 1)
        return _observed(behind, bound, where, used, on_time), f"{given.view} AS {alias}", ""
    found = _observed(given, bound, where, used, "SELECT * FROM {view}")
    windows = f"(SELECT *, {spark_window(window, '__time')} AS __window FROM {given.view}) AS {alias}"
    return found, windows, f"unix_millis({alias}.__window.end) + {grace} > {alias}.__stream_ms"


def with_sessions(bound: Bound, window: Window, groups: list[str]) -> str:
    """Return FROM of sessions that are computed from all their records: `__session` changes where one was closed.

    A record within the gap of a session that its own stream time closed begins another: of two neighbours in time the
    second came when the first was older than gap and grace. That is so where the records of a group came in the order
    of their times; the sessions of others are in the column __placed (running/sessions.py).
    """
    alias = bound.quoted
    order = f"OVER (PARTITION BY {', '.join(groups)} ORDER BY {alias}.__time, {alias}.__offset)"
    earlier = ", ".join(
        f"lag({alias}.{each}) {order} AS __earlier{each}" for each in ("__time", "__partition", "__offset")
    )
    closed = (
        f"{alias}.__earlier__partition = {alias}.__partition AND {alias}.__earlier__offset < {alias}.__offset "
        f"AND unix_millis({alias}.__earlier__time) + {window.size.ms + grace_ms(window)} <= {alias}.__stream_ms"
    )
    return (
        f"(SELECT {alias}.*, coalesce({alias}.__placed, sum(IF({closed}, 1, 0)) {order}) AS __session "
        f"FROM (SELECT {alias}.*, {earlier} FROM input_1 AS {alias}) AS {alias}) AS {alias}"
    )


def grouped(bound: Bound, groups: list[str]) -> str:
    """Return Spark SQL over the view `arrived`: all columns, and the group of a session as a text, __group."""
    alias = bound.quoted
    named = ", ".join(f"{text} AS g{number}" for number, text in enumerate(groups))
    group = f"to_json(struct({named}), map('ignoreNullFields', 'false'))"
    return f"SELECT {alias}.*, {group} AS __group FROM arrived AS {alias}"


def filtered(given: Input, bound: Bound, where: str) -> Input:
    """Return an input without the records that do not meet a condition."""
    alias = bound.quoted
    return replace(given, sql=f"SELECT {alias}.* FROM ({given.sql}) AS {alias} WHERE {where}") if where else given


def joined(inputs: list[Input], bounds: list[Bound], join: Join, used: Iterable[str]) -> list[Input]:
    """Return the two inputs of an inner join of streams, with the time in the join, and without late records.

    All times are a millisecond later than they are: Spark takes a record of the epoch for late, whose time is not after
    the watermark of a new query, 0.
    """
    assert join.within is not None
    texts = list(used)
    late = f"unix_millis(__time) + {join_ms(join.within)} <= __stream_ms"
    on_time = f"SELECT *, __time + {_TICK} AS __joined_time FROM {{view}} WHERE NOT ({late})"
    found = [_observed(given, bound, "", texts, on_time) for given, bound in zip(inputs, bounds, strict=True)]
    return [replace(each, event_time="__joined_time") for each in found]


def _observed(given: Input, bound: Bound, where: str, used: Iterable[str], on_time: str) -> Input:
    """Return an input whose records know their stream time; it has no columns that the query does not use."""
    alias, texts = bound.quoted, list(used)
    names = [*(quote(each.name) for each in bound.source.columns), "__window_start", "__window_end", "__headers"]
    names = [each for each in names if any(f"{alias}.{each}" in text for text in texts)]
    chosen = ", ".join(f"{alias}.{each}" for each in [*names, "__time", "__partition", "__offset"])
    sql = f"SELECT {chosen} FROM ({given.sql}) AS {alias}" + (f" WHERE {where}" if where else "")
    view = f"observed_{given.view.removeprefix('input_')}"
    return replace(given, sql=sql, observed=view, on_time=on_time.format(view=view))


def _length(ms: int) -> str:
    return f"'{ms} milliseconds'"
