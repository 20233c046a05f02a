"""Filters of records in a small language with Python's syntax: parsed, checked and compiled to closures; nothing is
evaluated by Python itself.

    value.customer.country == "CH" and offset > 100
    value["items"][0].price * 2 >= 10 or not exists(value.note)
    header("trace-id") != null and matches(key, "^order-[0-9]+$")
    "error" in lower(text) and timestamp >= 1795305600000
    $.customer.country == "CH"

`$` is `value`, as in a JSON path. Names: `key`, `value` (decoded: JSON, Avro and Protobuf as data, else text), `text`
(the value as one line), `headers`, `partition`, `offset`, `timestamp` (ms), `size` (bytes of key and value), `true`,
`false`, `null`. Functions: `exists`, `header`, `len`, `lower`, `upper`, `contains`, `starts_with`, `ends_with`,
`matches` (RE2), `number`, `string`.

A member that is missing, and a comparison of types that cannot be compared, make a comparison false and raise nothing.
The length of an expression, the depth of its tree and the size of the texts that it makes are bounded; it has no loops.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from odradek.errors import ErrorCode, KafkaError
from odradek.patterns import PatternInvalid, compile_pattern

LENGTH_MAX = 2_000
EXACT = 2.0**53  # below it every whole number is a float
_DEPTH_MAX = 50
_MATCHED_MAX = 65_536  # characters that `matches` looks at

_DOLLAR = re.compile(r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\$""")  # texts in quotes are passed over


class Scope(Protocol):
    """The values of names."""

    def get(self, name: str, default: Any = None, /) -> Any:
        """Return the value of a name, else `default`."""
        ...


Evaluate = Callable[[Scope], Any]


class _Missing:
    """The value of a member that is not there: equal to nothing, false."""

    def __bool__(self) -> bool:
        return False


MISSING = _Missing()
NAMES = frozenset({"key", "value", "text", "headers", "partition", "offset", "timestamp", "size"})
_CONSTANTS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
_ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}


def compile_expression(text: str) -> Callable[[Scope], bool]:
    """Return a function that says whether a record matches.

    Raises:
        KafkaError: INVALID_CONFIG for an expression that is not one; the message says where.
    """
    evaluate = _compile(_parsed(text), 0)
    return lambda scope: bool(evaluate(scope))


def texts_within(text: str) -> list[str]:
    """Return texts that occur, letter for letter, in every JSON value that matches an expression and has no escapes.

    They are those with which members of `value` are compared by `==`, in parts that `and` joins: a search looks for
    their bytes in whole columns before it decodes anything.

    Raises KafkaError(INVALID_CONFIG).
    """
    found = []
    for each in _conjuncts(text):
        if isinstance(each.ops[0], ast.Eq):
            for a, b in ((each.left, each.comparators[0]), (each.comparators[0], each.left)):
                if isinstance(b, ast.Constant) and isinstance(b.value, str) and b.value and _is_of_value(a):
                    found.append(b.value)
    return found


class NumberBound(NamedTuple):
    """A comparison that every match fulfils: of the number at a path in `value` with a constant."""

    path: tuple[str, ...]
    operator: str  # "==", "<", "<=", ">" or ">="
    number: float


def numbers_within(text: str) -> list[NumberBound]:
    """Return the comparisons of members of `value` with numbers that every match of an expression fulfils.

    They are in parts that `and` joins; a search makes them for whole columns before it decodes anything. No two paths
    are such that one leads through the other.

    Raises KafkaError(INVALID_CONFIG).
    """
    found: list[NumberBound] = []
    for each in _conjuncts(text):
        sides = (each.left, each.comparators[0])
        names = _OPERATORS.get(type(each.ops[0]))
        for (a, b), name in zip((sides, sides[::-1]), names or (), strict=False):
            path, number = _path(a), _number_of(b)
            if path and number is not None and not any(_is_through(path, other.path) for other in found):
                found.append(NumberBound(path, name, number))
    return found


# As written, and with the sides exchanged. Not `!=`, which other types fulfil as well.
_OPERATORS: Mapping[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("==", "=="),
    ast.Lt: ("<", ">"),
    ast.LtE: ("<=", ">="),
    ast.Gt: (">", "<"),
    ast.GtE: (">=", "<="),
}


def _conjuncts(text: str) -> list[ast.Compare]:
    """Return the comparisons of two sides that must all hold."""
    node = _parsed(text)
    parts = node.values if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And) else [node]
    return [each for each in parts if isinstance(each, ast.Compare) and len(each.ops) == 1]


def _is_of_value(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return isinstance(node, ast.Name) and node.id == "value"


def _path(node: ast.expr) -> tuple[str, ...]:
    """Return the names that lead from `value` to a member; empty if there are none, or something else."""
    names: list[str] = []
    while True:
        match node:
            case ast.Attribute(value=of, attr=name) | ast.Subscript(value=of, slice=ast.Constant(value=str(name))):
                names.append(name)
                node = of
            case ast.Name(id="value"):
                return tuple(reversed(names))
            case _:
                return ()


def _number_of(node: ast.expr) -> float | None:
    match node:
        case ast.Constant(value=int(number) | float(number)) if not isinstance(number, bool) and _is_number(number):
            return float(number) if abs(number) < EXACT else None
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant()):
            negated = _number_of(node.operand)
            return None if negated is None else -negated
    return None


def _is_through(path: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return True if one path leads through the other's end, and they are not the same."""
    shorter = min(len(path), len(other))
    return path != other and path[:shorter] == other[:shorter]


def _parsed(text: str) -> ast.expr:
    if len(text) > LENGTH_MAX:
        raise _invalid(f"it has more than {LENGTH_MAX} characters")
    try:
        tree = ast.parse(_DOLLAR.sub(lambda match: "value" if match[0] == "$" else match[0], text.strip()), mode="eval")
    except SyntaxError as error:
        raise _invalid(f"{error.msg} at column {error.offset}") from None
    except (ValueError, RecursionError, MemoryError):
        raise _invalid("it cannot be parsed") from None
    return tree.body


def _invalid(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, f"invalid expression: {why}")


def _compile(node: ast.expr, depth: int) -> Evaluate:
    if depth > _DEPTH_MAX:
        raise _invalid("it is nested too deeply")
    compiler = _COMPILERS.get(type(node))
    if compiler is None:
        raise _invalid(f"{ast.unparse(node)[:60]!r} is not allowed: use names, members, comparisons, and, or, not")
    return compiler(node, depth + 1)


def _constant(node: Any, depth: int) -> Evaluate:
    value = node.value
    if not isinstance(value, str | int | float | bool | type(None)):
        raise _invalid(f"{value!r} is not a text, a number, true, false or null")
    return lambda scope: value


def _name(node: Any, depth: int) -> Evaluate:
    name = node.id
    if name in _CONSTANTS:
        constant = _CONSTANTS[name]
        return lambda scope: constant
    if name not in NAMES:
        raise _invalid(f"unknown name {name!r}: use {', '.join(sorted(NAMES))}")
    return lambda scope: scope.get(name, MISSING)


def _attribute(node: Any, depth: int) -> Evaluate:
    of, name = _compile(node.value, depth), node.attr
    return lambda scope: _member(of(scope), name)


def _subscript(node: Any, depth: int) -> Evaluate:
    of, index = _compile(node.value, depth), _compile(node.slice, depth)
    return lambda scope: _member(of(scope), index(scope))


def _member(value: Any, name: Any) -> Any:
    if isinstance(value, Mapping):
        return value.get(name, MISSING) if isinstance(name, str | int | float) else MISSING
    if isinstance(value, list | tuple) and isinstance(name, int) and -len(value) <= name < len(value):
        return value[name]
    return MISSING


def _list(node: Any, depth: int) -> Evaluate:
    parts = [_compile(each, depth) for each in node.elts]
    return lambda scope: [part(scope) for part in parts]


def _bool(node: Any, depth: int) -> Evaluate:
    parts = [_compile(each, depth) for each in node.values]
    combine = all if isinstance(node.op, ast.And) else any
    return lambda scope: combine(part(scope) for part in parts)


def _unary(node: Any, depth: int) -> Evaluate:
    of = _compile(node.operand, depth)
    if isinstance(node.op, ast.Not):
        return lambda scope: not of(scope)
    if isinstance(node.op, ast.USub):
        return lambda scope: -value if _is_number(value := of(scope)) else MISSING
    raise _invalid(f"{ast.unparse(node)[:60]!r} is not allowed")


def _binary(node: Any, depth: int) -> Evaluate:
    compute = _ARITHMETIC.get(type(node.op))
    if compute is None:
        raise _invalid(f"{ast.unparse(node)[:60]!r} is not allowed: use + - * / %")
    left, right = _compile(node.left, depth), _compile(node.right, depth)

    def calculate(scope: Scope) -> Any:
        a, b = left(scope), right(scope)
        if not _is_number(a) or not _is_number(b):  # a text times a number may be as large as memory
            return MISSING
        try:
            return compute(a, b)
        except (ZeroDivisionError, OverflowError):
            return MISSING

    return calculate


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e30


def _compare(node: Any, depth: int) -> Evaluate:
    first = _compile(node.left, depth)
    steps = [(_comparison(op), _compile(each, depth)) for op, each in zip(node.ops, node.comparators, strict=True)]

    def compare(scope: Scope) -> bool:
        left = first(scope)
        for holds, evaluate in steps:
            right = evaluate(scope)
            if left is MISSING or right is MISSING:
                return False
            try:
                if not holds(left, right):
                    return False
            except TypeError:
                return False
            left = right
        return True

    return compare


def _comparison(op: ast.cmpop) -> Callable[[Any, Any], bool]:
    return _COMPARE[type(op)]


def _call(node: Any, depth: int) -> Evaluate:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name not in _FUNCTIONS or node.keywords:
        raise _invalid(f"{ast.unparse(node)[:60]!r} is not allowed: functions are {', '.join(sorted(_FUNCTIONS))}")
    count, function = _FUNCTIONS[name]
    if len(node.args) != count:
        raise _invalid(f"{name} takes {count} argument{'s' if count > 1 else ''}")
    if name == "matches":
        return _matches(node, depth)
    arguments = [_compile(each, depth) for each in node.args]
    if name == "header":
        return lambda scope: _member(scope.get("headers", {}), arguments[0](scope))

    def call(scope: Scope) -> Any:
        try:
            return function(*(argument(scope) for argument in arguments))
        except (TypeError, ValueError, AttributeError, OverflowError):
            return MISSING

    return call


def _matches(node: Any, depth: int) -> Evaluate:
    of, pattern = _compile(node.args[0], depth), node.args[1]
    if not isinstance(pattern, ast.Constant) or not isinstance(pattern.value, str):
        raise _invalid("the pattern of matches is a text in quotes")
    try:
        found = compile_pattern(pattern.value)
    except PatternInvalid as error:
        raise _invalid(f"the pattern {pattern.value[:60]!r}: {error}") from None

    def matches(scope: Scope) -> bool:
        value = of(scope)
        return isinstance(value, str) and found.occurs_in(value[:_MATCHED_MAX])

    return matches


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise TypeError


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, str) else value if _is_number(value) else MISSING


_FUNCTIONS: Mapping[str, tuple[int, Callable[..., Any]]] = {
    "exists": (1, lambda value: value is not MISSING),
    "header": (1, lambda value: value),
    "len": (1, len),
    "lower": (1, lambda value: _text(value).lower()),
    "upper": (1, lambda value: _text(value).upper()),
    "contains": (2, lambda value, part: part in value),
    "starts_with": (2, lambda value, part: _text(value).startswith(_text(part))),
    "ends_with": (2, lambda value, part: _text(value).endswith(_text(part))),
    "matches": (2, lambda value, part: False),
    "number": (1, _number),
    "string": (1, lambda value: MISSING if value is MISSING else str(value)),
}

_COMPILERS: Mapping[type[ast.expr], Callable[[Any, int], Evaluate]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.List: _list,
    ast.Tuple: _list,
    ast.BoolOp: _bool,
    ast.UnaryOp: _unary,
    ast.BinOp: _binary,
    ast.Compare: _compare,
    ast.Call: _call,
}
