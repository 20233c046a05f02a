"""Outer joins of streams without GRACE PERIOD: what a record is joined with is decided when it arrives.

Each record drives the join once. It finds the records of the other stream that arrived before it; without any, an outer
side writes the row without a match, and a match that arrives later writes the joined row after it. So one statement is
two joins, one driven by the new records of each side:

    new records of input_1, LEFT or INNER JOIN the earlier ones of input_2
    UNION ALL
    the earlier ones of input_1, RIGHT or INNER JOIN new records of input_2

A view of an input has, beside the columns of scope.py (running/eager.py adds them):

    __fresh     whether the record arrived in this micro-batch
    __arrived   its place in the order of arrival, over both inputs
    __since     ms: records of the other input with this time or an earlier one are no longer kept when it arrives
"""

from __future__ import annotations

from odradek.sql.plan import Eager
from odradek.sql.scope import Bound
from odradek.sql.syntax import Join
from odradek.sql.types import quote

_KEPT_MS = 24 * 3_600_000  # Kafka Streams' default


def eager_join(join: Join) -> Eager | None:
    """Return how a join of streams keeps its records; None for one that waits for matches, or needs none."""
    within = join.within
    if within is None or within.grace is not None or join.kind == "INNER":
        return None
    before, after = within.before.ms, within.after.ms
    # Kafka Streams keeps records for size and grace of the window; its default grace comes from the bound before.
    return Eager(max(before, after), before + after + max(_KEPT_MS - 2 * before, 0))


def eager_sql(
    columns: list[str], kind: str, condition: str, bounds: list[Bound], rest: str, *, keys: list[str], shown: list[str]
) -> str:
    """Return the statement of such a join.

    Args:
        columns: what is selected.
        kind: LEFT, RIGHT or FULL.
        condition: of two records, whatever arrived first.
        bounds: the two sources.
        rest: of the statement, after the sources.
        keys: of the columns' names, those of the result's key, each of which keeps the order of its records.
        shown: names of the columns of rows for a screen; empty: they are records.
    """
    left, right = (each.quoted for each in bounds)

    def driven_by(number: int, kind: str) -> str:
        driver, other = (left, right) if number == 1 else (right, left)
        views = [
            f"input_{each}" if each != number else f"(SELECT * FROM input_{each} WHERE __fresh)" for each in (1, 2)
        ]
        earlier = f"{other}.__arrived < {driver}.__arrived AND unix_millis({other}.__time) > {driver}.__since"
        order = f"struct({driver}.__arrived AS a, {other}.__time AS t, {other}.__arrived AS b) AS __order"
        return (
            f"SELECT {', '.join([*columns, order])} FROM {views[0]} AS {left} "
            f"{kind} JOIN {views[1]} AS {right} ON {condition} AND {earlier}{rest}"
        )

    first = driven_by(1, "LEFT" if kind in ("LEFT", "FULL") else "INNER")
    second = driven_by(2, "RIGHT" if kind in ("RIGHT", "FULL") else "INNER")
    both = f"({first} UNION ALL {second})"
    if shown:
        return f"SELECT {', '.join(quote(each) for each in shown)} FROM {both} ORDER BY __order"
    # By a hash of the key: Spark 4.1 leaves the key itself out, as both joins have it, and puts one behind the other.
    together = f" DISTRIBUTE BY xxhash64({', '.join(quote(each) for each in keys)})" if keys else ""
    return f"SELECT * FROM {both}{together} SORT BY __order"
