"""Mutants made by rule: `python -m tests.mutants.rules` writes made.json, from the syntax trees and a fixed seed.

    comparison   `<` for `<=`, `>` for `>=`, and the other way round
    condition    one operand of `and` or `or` is dropped, or a guard (`if ...: return`) never holds
    order        two neighbouring steps of which both have an effect are swapped
    stale        what forgets, clears or resets does nothing
    border       `+ 1` and `- 1` are dropped, a border of a slice moves by one

Nobody chooses them: `_SHARES` says how many of each area, the seed which, at most one a function and `_PER_FILE` a
file. A mutant stays, whatever its verdict, as long as its text is in the file once; others are drawn in the place of
those that no longer apply.
"""

from __future__ import annotations

import ast
import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.mutants.mutation import PACKAGE, Mutant

SEED = 20_261_127
MADE = Path(__file__).with_name("made.json")
_SHARES = {
    "client/consumer": 12,
    "client/producer": 10,
    "client/share": 3,
    "client/transport": 4,
    "gateway": 12,
    "dispatcher": 11,
    "adapters/embedded": 10,
    "adapters/memory": 2,
    "adapters/aws": 4,
    "adapters": 2,
    "registry": 7,
    "served": 5,
}
_PER_FILE = 3
_SWAPPED = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}
_FORGETTING = {
    "pop",
    "clear",
    "discard",
    "forget",
    "remove",
    "popitem",
    "changed",
    "cancel",
    "set",
    "restart",
    "release",
}
_RULES = ("comparison", "condition", "order", "stale", "border")
_PASSED = ("__init__", "__repr__", "__str__")  # what fails at once, and what only people read
_LOGGING = {"logger", "_log", "_logger", "log"}


@dataclass(frozen=True)
class Change:
    """One change of a file: the text [start, end) becomes another one."""

    rule: str
    function: str
    start: int
    end: int
    new: str


def main() -> int:
    kept = [each for each in read_made() if _applies(each)]
    made = kept + _draw(kept)
    made.sort(key=lambda each: (each["path"], each["name"]))
    write_made(made)
    print(f"{len(made)} mutants, {len(kept)} of them kept: {dict(Counter(each['rule'] for each in made))}")
    return 0


def read_made() -> list[dict[str, Any]]:
    return json.loads(MADE.read_text()) if MADE.exists() else []  # type: ignore[no-any-return]


def write_made(made: Sequence[dict[str, Any]]) -> None:
    MADE.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n")


def mutants() -> list[Mutant]:
    """The mutants of made.json."""
    return [
        Mutant(
            each["name"],
            each["path"],
            each["old"],
            each["new"],
            equivalent=each.get("equivalent", ""),
            killed_by=each.get("killed_by", ""),
            made_by=each["rule"],
        )
        for each in read_made()
    ]


def _applies(made: dict[str, Any]) -> bool:
    path = PACKAGE / made["path"]
    return path.exists() and path.read_text().count(made["old"]) == 1


def _draw(kept: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    chance = random.Random(SEED)
    functions = {(each["path"], each["function"]) for each in kept}
    per_file = Counter(each["path"] for each in kept)
    per_area = Counter(each["area"] for each in kept)
    drawn: list[dict[str, Any]] = []
    for area, share in _SHARES.items():
        pattern = "*.py" if area == "adapters" else "**/*.py"
        by_rule: dict[str, list[tuple[str, Change]]] = {rule: [] for rule in _RULES}
        for file in sorted((PACKAGE / area).glob(pattern)):
            path = file.relative_to(PACKAGE).as_posix()
            for change in changes_of(file.read_text()):
                by_rule[change.rule].append((path, change))
        for changes in by_rule.values():
            chance.shuffle(changes)
        turn = 0
        while per_area[area] < share and any(by_rule.values()):
            changes = by_rule[_RULES[turn % len(_RULES)]]
            turn += 1
            while changes:
                path, change = changes.pop()
                if (path, change.function) in functions or per_file[path] >= _PER_FILE:
                    continue
                made = _made(area, path, change)
                if made is None:
                    continue
                functions.add((path, change.function))
                per_file[path] += 1
                per_area[area] += 1
                drawn.append(made)
                break
    return drawn


def _made(area: str, path: str, change: Change) -> dict[str, Any] | None:
    """The mutant of a change, with as many lines before it as make its text unique; None: it does not compile."""
    text = (PACKAGE / path).read_text()
    start, end = text.rfind("\n", 0, change.start) + 1, text.find("\n", change.end)
    while text.count(text[start:end]) != 1:
        if not start:
            return None
        start = text.rfind("\n", 0, start - 1) + 1
    old = text[start:end]
    new = text[start : change.start] + change.new + text[change.end : end]
    try:
        compile(text[:start] + new + text[end:], path, "exec")
    except SyntaxError:
        return None
    line = text.count("\n", 0, change.start) - text.count("\n", 0, text.find(f"def {change.function.split('.')[-1]}("))
    name = f"{change.rule} in {path}, {change.function}, line {line}"
    return {"name": name, "area": area, "path": path, "function": change.function, "rule": change.rule} | {
        "old": old,
        "new": new,
    }


def changes_of(text: str) -> Iterator[Change]:
    """All changes that the rules allow in a file."""
    lines = [0]
    for line in text.splitlines(keepends=True):
        lines.append(lines[-1] + len(line.encode()))
    raw = text.encode()

    def at(line: int, column: int) -> int:
        return len(raw[: lines[line - 1] + column].decode())

    def span(node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, ast.expr | ast.stmt)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset)

    for name, function in _functions(ast.parse(text)):
        for node in _nodes(function):
            for rule, (start, end), new in _changes(node, text, span):
                yield Change(rule, name, start, end, new)


def _functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.AST]]:
    for each in ast.iter_child_nodes(tree):
        if isinstance(each, ast.ClassDef):
            yield from _functions(each, f"{prefix}{each.name}.")
        elif isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name not in _PASSED:
            yield f"{prefix}{each.name}", each


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """What is executed and may matter: no annotation, no message, no assertion, no line of a log."""
    for each in ast.iter_child_nodes(tree):
        if isinstance(each, ast.JoinedStr | ast.Raise | ast.Assert | ast.arguments) or _is_logging(each):
            continue
        yield each
        yield from _nodes(each)


def _is_logging(node: ast.AST) -> bool:
    match node:
        case ast.Expr(ast.Call(ast.Attribute(ast.Name(name)))):
            return name in _LOGGING
    return False


def _changes(node: ast.AST, text: str, span: Any) -> Iterator[tuple[str, tuple[int, int], str]]:
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _SWAPPED:
            yield "comparison", (span(left)[1], span(right)[0]), f" {_SWAPPED[type(op)]} "
        case ast.BoolOp(values=[first, *rest]):
            yield "condition", (span(first)[1], span(node)[1]), ""
            yield "condition", (span(first)[0], span(rest[0])[0]), ""
        case ast.If(test=test, body=[ast.Return() | ast.Continue() | ast.Break()], orelse=[]):
            yield "condition", span(test), "False"
        case ast.Expr(ast.Call(ast.Attribute(attr=name))) if name in _FORGETTING:
            yield "stale", span(node), "pass"
        case ast.Assign(targets=[ast.Attribute()], value=ast.Constant()):
            yield "stale", span(node), "pass"
        case ast.Delete():
            yield "stale", span(node), "pass"
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=ast.Constant(1)):
            yield "border", (span(left)[1], span(node)[1]), ""
        case ast.Slice(lower=None, upper=ast.Constant(int(number)) as upper):
            yield "border", span(upper), str(number + 1)
        case ast.Slice(lower=ast.Constant(int(number)) as lower, upper=None):
            yield "border", span(lower), str(number + 1)
    for field in ("body", "orelse", "finalbody"):
        steps = getattr(node, field, None)
        if isinstance(steps, list):
            for one, other in pairwise(steps):
                if _has_effect(one) and _has_effect(other):
                    (start, middle), (after, end) = span(one), span(other)
                    yield "order", (start, end), text[after:end] + text[middle:after] + text[start:middle]


def _has_effect(step: Any) -> bool:
    match step:
        case ast.Expr(ast.Call() | ast.Await()):
            return not _is_logging(step)
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.AugAssign() | ast.Delete():
            return True
    return False


if __name__ == "__main__":
    raise SystemExit(main())
