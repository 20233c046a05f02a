"""Text -> statements, or SqlError at the first position that cannot be parsed; no other error is raised."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from lark import Lark, Token, UnexpectedInput
from lark.exceptions import UnexpectedCharacters, UnexpectedToken, VisitError
from lark.lexer import PatternRE, PatternStr, TerminalDef

from odradek.sql.build import Build, place_of
from odradek.sql.position import START, Position, SqlError
from odradek.sql.syntax import Statement

_NOT_SUPPORTED = {
    "ORDER": "a stream has no end, so it cannot be sorted: ORDER BY is not supported",
    "UNION": "UNION is not supported: INSERT INTO one stream from each side",
    "INTERSECT": "INTERSECT is not supported: join the streams",
    "EXCEPT": "EXCEPT is not supported: use LEFT JOIN and keep rows without a match",
    "OVER": "window functions (OVER) are not supported: use WINDOW ... GROUP BY",
    "SELECT": "subqueries are not supported: create a stream or table",
    "WITH": "WITH ... AS is not supported: create a stream or table",
    "UPDATE": "UPDATE is not supported: INSERT INTO the table a row with the same key",
    "DELETE": "DELETE is not supported: write a tombstone to the topic, with `odradek produce TOPIC -K : --null`",
    "CROSS": "CROSS JOIN is not supported: a join needs ON a = b",
    "USING": "USING is not supported: write ON a.x = b.x",
    "NATURAL": "NATURAL JOIN is not supported: write ON a.x = b.x",
    "RUN": "RUN SCRIPT is for the shell: pass several files to `odradek sql`",
    "CONNECTOR": "CREATE SOURCE CONNECTOR or CREATE SINK CONNECTOR: which of them?",
    "FUNCTION": "a module brings functions: SET 'odradek.functions.module' = 'functions.py'",
    "OFFSET": "OFFSET is not supported",
    "ROLLUP": "ROLLUP is not supported",
    "CUBE": "CUBE is not supported",
}
_READABLE = {
    "$END": "the end",
    "NAME": "a name",
    "QUOTED": "a name",
    "STRING": "a string",
    "NUMBER": "a number",
    "LPAR": "(",
    "RPAR": ")",
    "LSQB": "[",
    "RSQB": "]",
    "COMMA": ",",
    "SEMICOLON": ";",
    "DOT": ".",
    "COMPARISON": "a comparison",
    "PLUS": "+", "MINUS": "-", "STAR": "*", "SLASH": "/", "PERCENT": "%", "CONCAT": "||",
    "LT": "<", "GT": ">", "EQ": "=", "LESSTHAN": "<", "MORETHAN": ">", "EQUAL": "=",
}  # fmt: skip
_OPERATORS = {"LT", "GT", "EQ", "COMPARISON", "PLUS", "MINUS", "STAR", "SLASH", "PERCENT", "CONCAT"}
SCRIPT_CHARACTERS_MAX = 64 * 1024  # with variables replaced; parsing takes some seconds at most
SCRIPT_PARTS_MAX = 5_000  # semicolons, or commas: the parser copies a list at each of its parts
_PLAIN_WORDS = 6  # more alternatives are no help


def parse(script: str, *, substitutes: bool = True) -> list[Statement]:
    """Return the statements of a script, in order. Args: substitutes: False if its variables are replaced already.

    Raises:
        SqlError: with the position of the first error. Call located() with the script to show it.
    """
    script = substituted(script) if substitutes else script
    for mark in ";,":
        if script.count(mark) > SCRIPT_PARTS_MAX:
            raise SqlError(f"a script has at most {SCRIPT_PARTS_MAX:,} of {mark!r}", START)
    try:
        tree = _parser().parse(script)
        statements: list[Statement] = Build().transform(tree)
        return statements
    except UnexpectedToken as error:
        raise _unexpected_token(error, script) from None
    except UnexpectedCharacters as error:
        raise _unexpected_characters(error, script) from None
    except UnexpectedInput as error:
        raise SqlError("the script cannot be read", _place(error.line, error.column)) from None
    except VisitError as error:
        if isinstance(error.orig_exc, SqlError):
            raise error.orig_exc from None
        if isinstance(error.orig_exc, RecursionError):
            raise _too_deep() from None
        raise
    except RecursionError:
        raise _too_deep() from None


_START = r"(?:^|(?<=;))(?:\s|--[^\n]*\n|/\*[\s\S]*?\*/)*"  # of a statement
_VARIABLE = re.compile(
    rf"{_START}DEFINE\s+(?P<name>\w+)\s*=\s*'(?P<value>(?:[^']|'')*)'"
    rf"|{_START}UNDEFINE\s+(?P<gone>\w+)"
    rf"|{_START}SET\s+'ksql\.variable\.substitution\.enable'\s*=\s*'(?P<on>\w+)'"
    r"|--[^\n]*|/\*[\s\S]*?\*/"
    r"|(?P<escape>\$?)\$\{(?P<used>\w+)\}",
    re.IGNORECASE,
)


def substituted(script: str, given: Mapping[str, str] | None = None) -> str:
    """Return a script with ${name} replaced by what DEFINE said of the name before; an unknown name stays.

    `$${name}` is written for `${name}`. After SET 'ksql.variable.substitution.enable' = 'false' nothing is replaced.

    Args:
        given: values by name in upper case, for names that the script does not DEFINE before.

    Raises:
        SqlError: the script would have more than SCRIPT_CHARACTERS_MAX characters.
    """
    _check_length(len(script))
    variables = dict(given or {})
    length, is_on = len(script), True

    def used(match: re.Match[str], *, in_text: bool = False) -> str:
        nonlocal length
        if match["escape"] or not match["used"]:
            return match[0][1:] if match["escape"] else match[0]
        value = variables.get(match["used"].upper(), match[0])
        value = value.replace("'", "''") if in_text else value
        length += len(value) - len(match[0])
        _check_length(length)
        return value

    def replaced(match: re.Match[str]) -> str:
        nonlocal is_on
        if match["on"]:  # SET of it
            is_on = match["on"].lower() != "false"
        elif match["name"]:
            value = _VARIABLE.sub(lambda inner: used(inner, in_text=True), match["value"]) if is_on else match["value"]
            variables[match["name"].upper()] = value.replace("''", "'")
            return f"{match[0][: -len(match['value']) - 1]}{value}'"
        elif match["gone"]:
            variables.pop(match["gone"].upper(), None)
        return used(match) if is_on else match[0]

    return _VARIABLE.sub(replaced, script) if "${" in script else script


def _check_length(length: int) -> None:
    if length > SCRIPT_CHARACTERS_MAX:
        raise SqlError(f"a script has at most {SCRIPT_CHARACTERS_MAX:,} characters, variables replaced", START)


@cache
def _parser() -> Lark:
    grammar = files("odradek.sql").joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(
        grammar, parser="lalr", propagate_positions=True, maybe_placeholders=True, edit_terminals=_ends_with_its_word
    )


def _ends_with_its_word(terminal: TerminalDef) -> None:
    """Let a keyword match whole words: where no name may stand, STREAMX would be read as STREAM and X."""
    if isinstance(terminal.pattern, PatternStr) and terminal.pattern.value.isalpha():
        terminal.pattern = PatternRE(terminal.pattern.value + "(?![a-z0-9_])", terminal.pattern.flags)
        terminal.priority = 1  # before NAME, which has it as a string, too


def _too_deep() -> SqlError:
    return SqlError("an expression of the script is nested too deeply: split it")


def _unexpected_token(error: UnexpectedToken, script: str) -> SqlError:
    token: Token = error.token
    expected = set(error.accepts or error.expected)
    if token.type == "$END":
        at = _place(token.end_line, token.end_column)
        return SqlError(f"the statement ends too early{_hint(expected)}", at)
    at = place_of(token)
    start = token.start_pos or 0
    if script[start - 1 : start + 1] == "/*":
        return SqlError("the comment is not closed", Position(at.line, at.column - 1, 2))
    known = _NOT_SUPPORTED.get(str(token).upper())
    if token.type == "LPAR" and "NAME" in expected and "NUMBER" not in expected:
        known = _NOT_SUPPORTED["SELECT"]
    if known is not None:
        return SqlError(known, at)
    return SqlError(f"{_shown(token)} is not expected here{_hint(expected)}", at)


def _unexpected_characters(error: UnexpectedCharacters, script: str) -> SqlError:
    at = _place(error.line, error.column)
    rest = script[error.pos_in_stream or 0 :]
    first = rest[:1]
    if first == "'":
        return SqlError("the string is not closed", at)
    if first in ('"', "`"):
        return SqlError("the quoted name is not closed", at)
    if rest.startswith("/*"):
        return SqlError("the comment is not closed", Position(at.line, at.column, 2))
    word = ""
    for char in rest:
        if not (char.isalnum() or char == "_"):
            break
        word += char
    at = Position(at.line, at.column, max(1, len(word)))
    known = _NOT_SUPPORTED.get(word.upper())
    if known is not None:
        return SqlError(known, at)
    shown = word or (first if first.isprintable() else f"character U+{ord(first):04X}" if first else "the end")
    return SqlError(f"{shown} is not expected here{_hint(set(error.allowed or ()))}", at)


def _place(line: int | None, column: int | None) -> Position:
    return Position(max(1, line or 1), max(1, column or 1))


def _shown(token: Token) -> str:
    text = str(token)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _hint(expected: set[str]) -> str:
    """Return the expected tokens, if they are few enough to help."""
    names = {name for name in expected if name != "$END"}
    if names >= {"NUMBER", "CASE", "CAST"}:
        return "; expected an expression"
    if names >= {"NAME", "QUOTED"}:
        # Where a name is allowed, the keywords that may also be names are no help.
        return "; expected a name" if len(names) > _PLAIN_WORDS else _list(names)
    return _list(names - _OPERATORS)


def _list(names: set[str]) -> str:
    words = sorted({_READABLE.get(name, name) for name in names})
    return f"; expected {' or '.join(words)}" if 0 < len(words) <= _PLAIN_WORDS else ""
