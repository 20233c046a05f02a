"""Scripts of stream SQL, checked without Spark and without a service: what is wrong and where, or what would run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from odradek.errors import ErrorCode, KafkaError
from odradek.extras import extra

SCRIPT_MAX = 100_000  # characters


@dataclass(frozen=True, slots=True)
class StatementRow:
    """A statement of a script."""

    line: int
    kind: str  # declares | starts | selects | inserts | another word for what it does
    name: str  # of the stream, table or query
    reads: tuple[str, ...]  # topics
    writes: str  # topic, or ""
    columns: tuple[tuple[str, str], ...]  # names and types
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScriptCheck:
    """The outcome of a check: a problem with its place, or the statements."""

    problem: str  # "" for a valid script; several lines, with a caret
    line: int
    column: int
    statements: tuple[StatementRow, ...]


def check_script(text: str) -> ScriptCheck:
    """Parse and plan a script. Raises MissingExtra, and KafkaError(INVALID_REQUEST) for one that is too long."""
    with extra("sql"):
        from odradek.sql.position import SqlError
        from odradek.sql.session import check

    if len(text) > SCRIPT_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"the script has more than {SCRIPT_MAX:,} characters")
    try:
        steps = check([("", text)])
    except SqlError as error:
        at = error.at
        shown = str(error).partition(": ")[2]
        return ScriptCheck(shown, 0 if at is None else at.line, 0 if at is None else at.column, ())
    return ScriptCheck("", 0, 0, tuple(_row(each.action, each.at.line) for each in steps))


def _row(action: Any, line: int) -> StatementRow:
    """Return the row of a planned action (odradek.sql.plan)."""
    kind = {"Declared": "declares", "Started": "starts", "Selected": "selects", "Inserted": "inserts"}.get(
        type(action).__name__, type(action).__name__.lower()
    )
    plan, source = getattr(action, "plan", None), getattr(action, "source", None)
    topic = getattr(action, "topic", None)
    written = "" if plan is None or plan.sink is None else plan.sink.topic.name
    return StatementRow(
        line,
        kind,
        str(getattr(source, "name", "") or getattr(plan, "query_id", "")),
        () if plan is None else tuple(sorted({each.topic for each in plan.inputs})),
        written or str(getattr(topic, "name", "")),
        () if plan is None else plan.columns,
        () if plan is None else plan.notes,
    )
