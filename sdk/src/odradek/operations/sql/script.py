"""Scripts of stream SQL, checked without Spark and without a service: what is wrong and where, or what would run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from odradek.errors import ErrorCode, KafkaError
from odradek.extras import extra

if TYPE_CHECKING:
    from odradek.operations.schemas import RegistryAdmin

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
    query_id: str = ""  # of a persistent query: its checkpoint and its progress have this name


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
        steps = check([("", text)], loads_modules=False)  # whoever may write a script must not run Python here
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
        "" if plan is None else plan.query_id,
    )


KEYWORDS = (
    *("SELECT", "FROM", "WHERE", "GROUP", "BY", "HAVING", "ORDER", "LIMIT", "JOIN", "LEFT", "INNER", "OUTER", "ON"),
    *("WITHIN", "AS", "CREATE", "STREAM", "TABLE", "OR", "REPLACE", "WITH", "INSERT", "INTO", "VALUES", "EMIT"),
    *("CHANGES", "WINDOW", "TUMBLING", "HOPPING", "SESSION", "SIZE", "PARTITION", "CASE", "WHEN", "THEN", "ELSE"),
    *("END", "AND", "NOT", "NULL", "IS", "IN", "LIKE", "BETWEEN", "CAST", "COUNT", "SUM", "AVG", "MIN", "MAX"),
)
_TOPICS_MAX = 2_000
_COLUMNS_MAX = 2_000
_DECLARED = re.compile(
    r"CREATE\s+(?:OR\s+REPLACE\s+)?(?:STREAM|TABLE)\s+(\w+)\s*\(([^;]{0,5000}?)\)\s*WITH", re.IGNORECASE | re.DOTALL
)
_WORD = re.compile(r"[A-Za-z_][\w.-]*")


def words_of(text: str, topics: Iterable[str], registry: RegistryAdmin | None) -> dict[str, list[str]]:
    """Return what an editor may complete in a text. It asks the registry, so it blocks.

    Returns:
        keywords; topics; columns: of the topics that the text names, by their schemas, and of the text's own streams.
    """
    known = sorted(topics)
    named = set(_WORD.findall(text))
    columns: set[str] = set()
    for topic in [each for each in known if each in named][:20]:
        columns |= _fields_of(topic, registry)
    declared = _DECLARED.findall(text)
    for _, inside in declared:
        columns |= set(re.findall(r"(\w+)\s+[A-Z]+", inside))
    columns |= {"key", "value", "offset", "partition", "timestamp", "headers"}
    return {"keywords": list(KEYWORDS), "topics": known[:_TOPICS_MAX], "columns": sorted(columns)[:_COLUMNS_MAX]}


def _fields_of(topic: str, registry: RegistryAdmin | None) -> set[str]:
    """Return the names of the fields of a topic's values, as the registry has them; none of Protobuf."""
    if registry is None:
        return set()
    try:
        _, schema = registry.at(f"{topic}-value", None)
        document = json.loads(schema.text)
    except (KafkaError, ValueError):
        return set()
    if not isinstance(document, dict):
        return set()
    fields = document.get("fields")
    if isinstance(fields, list):
        return {str(each["name"]) for each in fields if isinstance(each, dict) and "name" in each}
    return set(map(str, document.get("properties") or ()))
