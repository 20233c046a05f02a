"""Outer joins of streams: what a record is joined with is decided when it arrives.

Each record drives the join once. It finds the records of the other stream that arrived before it. So one statement is
two joins, one driven by the new records of each side:

    new records of input_1 JOIN the earlier ones of input_2
    UNION ALL
    the earlier ones of input_1 JOIN new records of input_2

**A row without a match** is written at once where the join has no GRACE PERIOD: one of these joins is an outer one. A
match that arrives later then writes the joined row after it. With GRACE PERIOD it is written when the stream time of
both inputs has passed the record's window and the grace period, unless a match arrived before that:

    UNION ALL
    records of an outer side that are due, without those that found a match before they were due

A view of an input has, beside the columns of scope.py (running/eager.py adds them):

    __fresh     whether the record arrived in this micro-batch
    __arrived   its place in the order of arrival, over both inputs
    __since     ms: records of the other input with this time or an earlier one are no longer kept when it arrives
    __due       with GRACE PERIOD, of an outer side: the place at which its row without a match is written; NULL if it
                was written before, or is not yet
"""

from __future__ import annotations

from odradek.sql.plan import Eager
from odradek.sql.scope import Bound
from odradek.sql.syntax import Join
from odradek.sql.types import quote

_KEPT_MS = 24 * 3_600_000  # Kafka Streams' default


def eager_join(join: Join) -> Eager | None:
    """Return how an outer join of streams keeps its records; None for any other join."""
    within = join.within
    if within is None or join.kind == "INNER":
        return None
    before, after = within.before.ms, within.after.ms
    if within.grace is None:
        # Kafka Streams keeps records for size and grace of the window; its default grace comes from the bound before.
        return Eager(max(before, after), before + after + max(_KEPT_MS - 2 * before, 0))
    # A RIGHT JOIN is the left join of the other stream, with the same bounds.
    ahead: tuple[int | None, int | None] = {"LEFT": (after, None), "RIGHT": (None, after)}.get(
        join.kind, (after, before)
    )
    return Eager(max(before, after), before + after + within.grace.ms, within.grace.ms, ahead)


def eager_sql(
    columns: list[str],
    join: Join,
    eager: Eager,
    condition: str,
    bounds: list[Bound],
    rest: str,
    *,
    keys: list[str],
    shown: list[str],
) -> str:
    """Return the statement of such a join.

    Args:
        columns: what is selected.
        eager: what eager_join returns.
        condition: of two records, whatever arrived first.
        bounds: the two sources.
        rest: of the statement, after the sources.
        keys: of the columns' names, those of the result's key, each of which keeps the order of its records.
        shown: names of the columns of rows for a screen; empty: they are records.
    """
    left, right = (each.quoted for each in bounds)

    def driven_by(number: int) -> str:
        driver, other = (left, right) if number == 1 else (right, left)
        side = "LEFT" if number == 1 else "RIGHT"
        kind = side if eager.grace_ms is None and join.kind in (side, "FULL") else "INNER"
        views = [
            f"input_{each}" if each != number else f"(SELECT * FROM input_{each} WHERE __fresh)" for each in (1, 2)
        ]
        earlier = f"{other}.__arrived < {driver}.__arrived AND unix_millis({other}.__time) > {driver}.__since"
        order = f"{driver}.__arrived AS a, {other}.__time AS t, CAST(NULL AS TIMESTAMP) AS d, {other}.__arrived AS b"
        return (
            f"SELECT {', '.join([*columns, f'struct({order}) AS __order'])} FROM {views[0]} AS {left} "
            f"{kind} JOIN {views[1]} AS {right} ON {condition} AND {earlier}{rest}"
        )

    def alone(number: int) -> str:
        driver, other = (left, right) if number == 1 else (right, left)
        matched = f"{other}.__arrived < {driver}.__due AND unix_millis({other}.__time) > {driver}.__since"
        due = (
            f"(SELECT * FROM (SELECT * FROM input_{number} WHERE __due IS NOT NULL) AS {driver} "
            f"LEFT ANTI JOIN input_{3 - number} AS {other} ON {condition} AND {matched})"
        )
        nothing = f"(SELECT * FROM input_{3 - number} WHERE FALSE)"
        sources = f"{due} AS {left} LEFT JOIN {nothing}" if number == 1 else f"{nothing} AS {left} RIGHT JOIN {due}"
        time = f"{driver}.__time AS d"  # those due at a place come before what is joined there: t is NULL
        order = f"{driver}.__due AS a, CAST(NULL AS TIMESTAMP) AS t, {time}, {driver}.__arrived AS b"
        return f"SELECT {', '.join([*columns, f'struct({order}) AS __order'])} FROM {sources} AS {right} ON TRUE{rest}"

    parts = [driven_by(1), driven_by(2)]
    parts += [alone(number) for number, ahead in enumerate(eager.ahead_ms, 1) if ahead is not None]
    both = f"({' UNION ALL '.join(parts)})"
    if shown:
        return f"SELECT {', '.join(quote(each) for each in shown)} FROM {both} ORDER BY __order"
    # By a hash of the key: Spark 4.1 leaves the key itself out, as both joins have it, and puts one behind the other.
    together = f" DISTRIBUTE BY xxhash64({', '.join(quote(each) for each in keys)})" if keys else ""
    return f"SELECT * FROM {both}{together} SORT BY __order"
