"""A test that asserts only within a loop or an `all(...)` passes when there is nothing to look at: it counts first.

`tests.support.counted.at_least` counts. What cannot be empty by the text of the test needs no count: literals,
constants, enumerations, ranges. Properties (`@given`) are left to Hypothesis.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.support.repository import MODULES, trees

# Calls that pass on what they get, and those that never are empty or count for themselves.
PASSING = {"enumerate", "sorted", "reversed", "list", "set", "tuple", "chain", "pairwise", "items", "values", "keys"}
COUNTED = {"at_least", "range", "product", "permutations", "combinations"}
# Calls by which a test asserts without the keyword.
ASSERTING = re.compile(r"raises|warns|^_?(assert|check|expect|verify|require|judge|compare|until|wait|fail)|must|match")


def name_of(call: ast.Call) -> str:
    function = call.func
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def is_filled(node: ast.AST, filled: set[str]) -> bool:
    """Return True if an iterable has elements by the text alone."""
    match node:
        case ast.List() | ast.Tuple() | ast.Set() | ast.Dict() | ast.Constant() | ast.DictComp() | ast.SetComp():
            return True
        case ast.Name(id=name):
            return name in filled or name.lstrip("_")[:1].isupper()  # a constant or an enumeration
        case ast.Attribute(attr=name):
            return name.isupper()
        case ast.Starred(value=value) | ast.Subscript(value=value):
            return is_filled(value, filled)
        case ast.GeneratorExp(generators=generators) | ast.ListComp(generators=generators):
            return all(is_filled(generator.iter, filled) for generator in generators)
        case ast.BoolOp(values=values):
            return is_filled(values[-1], filled)
        case ast.BinOp(left=left, right=right):
            return is_filled(left, filled) or is_filled(right, filled)
        case ast.IfExp(body=body, orelse=orelse):
            return is_filled(body, filled) and is_filled(orelse, filled)
        case ast.Call(args=args, keywords=keywords) if name_of(node) == "zip":
            is_strict = any(keyword.arg == "strict" for keyword in keywords)
            return (any if is_strict else all)(is_filled(arg, filled) for arg in args)
        case ast.Call(func=function, args=args):
            if name_of(node) in PASSING:
                return all(is_filled(arg, filled) for arg in (args or [getattr(function, "value", node.func)]))
            return name_of(node) in COUNTED
        case _:
            return False


def may_be_empty(condition: ast.AST, filled: set[str]) -> bool:
    """Return True for `all(...)` and `not any(...)` over an iterable that may have no elements."""
    is_negated = isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not)
    match condition.operand if is_negated else condition:  # type: ignore[attr-defined]
        case ast.BoolOp(values=values):
            return all(may_be_empty(value, filled) for value in values)
        case ast.Call(func=ast.Name(id=name), args=[over]) if name == ("any" if is_negated else "all"):
            return not is_filled(over, filled)
        case _:
            return False


def asserts(node: ast.AST, filled: set[str], *, in_loop: bool = False) -> Iterator[bool]:
    """Yield True for each assertion that is sure to look at something, False for the others."""
    match node:
        case ast.Assert(test=condition):
            yield not in_loop and not may_be_empty(condition, filled)
        case ast.For(target=target, iter=over, body=body) | ast.AsyncFor(target=target, iter=over, body=body):
            is_sure = is_filled(over, filled)
            own = {part.id for part in ast.walk(target) if isinstance(part, ast.Name)} if is_sure else set()
            for statement in body:
                yield from asserts(statement, filled | own, in_loop=in_loop or not is_sure)
        case _:
            if isinstance(node, ast.Call) and ASSERTING.search(name_of(node)) and not in_loop:
                yield True
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.List):
                yield True  # [row] = rows counts them
            for child in ast.iter_child_nodes(node):
                yield from asserts(child, filled, in_loop=in_loop)


def is_vacuous(test: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return True if a test asserts, and may pass without having looked at anything."""
    if any("given" in ast.unparse(decorator) for decorator in test.decorator_list):
        return False
    filled = {
        target.id
        for node in ast.walk(test)
        if isinstance(node, ast.Assign) and is_filled(node.value, set())
        for target in node.targets
        if isinstance(target, ast.Name) and ast.unparse(node.value) not in ("[]", "{}", "()")
    }
    assertions = [is_sure for statement in test.body for is_sure in asserts(statement, filled)]
    return bool(assertions) and not any(assertions)


def vacuous_tests(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        is_test = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
        if is_test and is_vacuous(node):
            yield node.name


def test_no_test_passes_because_there_is_nothing_to_look_at() -> None:
    names = [name for name in MODULES if (name.startswith("tests/") and "/test_" in name) or "end_to_end" in name]
    vacuous = [f"{name}: {test}" for name, tree in trees(names, r"\bassert\b") for test in vacuous_tests(tree)]
    assert vacuous == [], "count first: tests/support/counted.py"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("for row in rows(): assert row", True),
        ("assert all(row for row in rows())", True),
        ("assert not any(rows())", True),
        ("rows = f()\n for row in rows: assert row", True),
        ("rows = []\n for row in rows: assert row", True),
        ("for row in rows(): assert row\n assert seen == 3", False),
        ("for row in at_least(3, rows()): assert row", False),
        ("for row in (1, 2): assert row", False),
        ("for kind in Kind: assert kind", False),
        ("for row, n in zip(rows(), (1, 2), strict=True): assert row == n", False),
        ("[row] = rows()\n for cell in row: assert cell", False),
        ("with pytest.raises(ValueError): f()", False),
    ],
)
def test_such_tests_are_recognized(body: str, expected: bool) -> None:
    [function] = ast.parse(f"def test_it():\n {body}").body
    assert isinstance(function, ast.FunctionDef)
    assert is_vacuous(function) is expected
