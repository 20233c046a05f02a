"""The text of a query, before DuckDB sees it. Pure.

    FROM flights AS OF '2026-11-22T10:00'        up to the last record with that timestamp or an earlier one
    FROM flights AS OF 1763805600000             the same in ms since the epoch
    FROM flights AS OF '{"0": 1200, "1": 900}'   up to these offsets by partition, exclusive: the ends of that moment

`AS OF` stands before the alias. Topics are names of tables; a name with a dot or a dash is quoted: "orders.v1".
`offset` is a word of SQL (LIMIT 5 OFFSET 10): it is the column wherever no number follows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from odradek.errors import ErrorCode, KafkaError
from odradek.operations.places import parse_time

STATEMENT_MAX = 100_000  # characters

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)
      | (?P<quoted>"(?:[^"]|"")*")
      | (?P<text>'(?:[^']|'')*'|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)
      | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
      | (?P<word>[^\W\d]\w*)
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_AFTER_TABLE = frozenset(
    {
        *("anti", "asof", "cross", "except", "fetch", "for", "full", "group", "having", "inner", "intersect", "join"),
        *("lateral", "left", "limit", "natural", "offset", "on", "order", "pivot", "positional", "qualify", "right"),
        *("sample", "select", "semi", "tablesample", "union", "unpivot", "using", "where", "window"),
    }
)  # what follows a table that has no alias


@dataclass(frozen=True, slots=True)
class Moment:
    """The end of a topic that AS OF names; one field is set."""

    timestamp_ms: int | None = None  # records up to this timestamp, inclusive
    offsets: dict[int, int] = field(default_factory=dict)  # by partition, exclusive; others are not read


@dataclass(frozen=True, slots=True)
class Statement:
    """A query for DuckDB.

    Attributes:
        text: with a relation's name in place of each AS OF.
        moments: topic and moment by the name of such a relation.
    """

    text: str
    moments: dict[str, tuple[str, Moment]]


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str

    def is_word(self, word: str) -> bool:
        return self.kind == "word" and self.text.lower() == word

    @property
    def name(self) -> str:
        """The name of an identifier, without quotes."""
        return self.text[1:-1].replace('""', '"') if self.kind == "quoted" else self.text


def read_statement(text: str) -> Statement:
    """Return the query for DuckDB. Raises KafkaError: it is empty or too long, or AS OF names no moment."""
    if len(text) > STATEMENT_MAX:
        raise _refused(f"the query has more than {STATEMENT_MAX:,} characters")
    tokens = [_Token(match.lastgroup or "other", match.group()) for match in _matches(text)]
    if not any(token.kind != "space" and token.text != ";" for token in tokens):
        raise _refused('the query is empty: write, for example, SELECT count(*) FROM "topic"')
    moments: dict[str, tuple[str, Moment]] = {}
    written: list[str] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        following = _next(tokens, at)
        if token.is_word("offset") and not _is_clause(tokens, following):
            written.append('"offset"')
        elif token.kind in ("word", "quoted") and (place := _as_of(tokens, at)) is not None:
            name = f"{token.name} as of {len(moments) + 1}"
            moments[name] = (token.name, _moment(tokens[place]))
            alias = _next(tokens, place)
            written.append(quoted(name) + ("" if _is_alias(tokens, alias) else f" AS {quoted(token.name)}"))
            at = place
        else:
            written.append(token.text)
        at += 1
    return Statement("".join(written), moments)


def quoted(name: str) -> str:
    """Return an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text of SQL."""
    return "'" + text.replace("'", "''") + "'"


def _matches(text: str) -> Iterator[re.Match[str]]:
    """Yield the tokens; `lastgroup` is their kind, since `tag` is within another group."""
    return _TOKEN.finditer(text)


def _next(tokens: Sequence[_Token], at: int) -> int:
    """Return the place of the next token that is not space."""
    at += 1
    while at < len(tokens) and tokens[at].kind == "space":
        at += 1
    return at


def _is_clause(tokens: Sequence[_Token], following: int) -> bool:
    """Return True if OFFSET is followed by what only the clause has: a number or a parameter."""
    return following < len(tokens) and (tokens[following].kind == "number" or tokens[following].text in ("?", "$"))


def _as_of(tokens: Sequence[_Token], at: int) -> int | None:
    """Return the place of the moment if AS OF and a literal follow the name at `at`."""
    first = _next(tokens, at)
    second = _next(tokens, first)
    third = _next(tokens, second)
    if third >= len(tokens) or not (tokens[first].is_word("as") and tokens[second].is_word("of")):
        return None
    return third if tokens[third].kind in ("text", "number") else None


def _is_alias(tokens: Sequence[_Token], at: int) -> bool:
    if at >= len(tokens):
        return False
    token = tokens[at]
    return token.kind == "quoted" or (token.kind == "word" and token.text.lower() not in _AFTER_TABLE)


def _moment(token: _Token) -> Moment:
    text = token.text[1:-1].replace("''", "'") if token.kind == "text" else token.text
    if not text.lstrip().startswith("{"):
        return Moment(timestamp_ms=parse_time(text, "AS OF"))
    try:
        offsets = json.loads(text)
        found = {int(partition): offset for partition, offset in offsets.items()}
    except (ValueError, RecursionError):
        found = {-1: -1}
    if any(partition < 0 or not isinstance(offset, int) or offset < 0 for partition, offset in found.items()):
        raise _refused(f'AS OF: invalid offsets {text!r}: use the ends by partition, as {{"0": 1200, "1": 900}}')
    return Moment(offsets=found)


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
