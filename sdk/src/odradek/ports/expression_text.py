"""The text of DynamoDB's expressions for conditions and actions: the AWS adapter sends it, every backend measures it,
and who can make an operation smaller asks how much of the limits it takes (`share_of_limits`).

Every name and value is a placeholder (`#0`, `:0`), so reserved words, dots and bytes need no escaping. Some of
DynamoDB's operators accept more than the port's; the text restricts them:

    Compare        true only for a value of the same type, so the type is tested too (not for "=", which implies it)
    Contains       true for lists only; DynamoDB's operator also searches text and bytes
    Add            SET p = if_not_exists(p, 0) + n, since the ADD clause accepts no nested paths

A group of parentheses never contains only another group, which DynamoDB refuses as redundant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from odradek.limits import TABLE_EXPRESSION_BYTES_MAX, TABLE_EXPRESSION_OPERATORS_MAX
from odradek.ports.table import (
    Absent,
    Action,
    Add,
    AllOf,
    AnyOf,
    Append,
    Compare,
    Condition,
    Contains,
    Copy,
    Exists,
    Not,
    Path,
    Remove,
    RemoveFirst,
    Set,
    Update,
    Value,
)

_KINDS: Final[dict[type, str]] = {str: "S", int: "N", bytes: "B", bool: "BOOL", list: "L", dict: "M"}


class Expressions:
    """The expressions of one request, and the placeholders that they share.

    Attributes:
        names: each attribute's name with its placeholder.
        values: each placeholder with its value.
    """

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.values: dict[str, Value] = {}

    def condition(self, condition: Condition) -> str:
        """Return the condition as a ConditionExpression."""
        match condition:
            case Exists(path):
                return f"attribute_exists({self._path(path)})"
            case Absent(path):
                return f"attribute_not_exists({self._path(path)})"
            case Compare(path, "=", value):
                return f"{self._path(path)} = {self._value(value)}"
            case Compare(path, op, value):
                return f"({self._is_of_type(path, value)} AND {self._path(path)} {op} {self._value(value)})"
            case Contains(path, value):
                return f"({self._is_of_type(path, [])} AND contains({self._path(path)}, {self._value(value)}))"
            case Not(inner):
                return f"(NOT {self.condition(inner)})"
            case AllOf((one,)) | AnyOf((one,)):
                return self.condition(one)
            case AllOf(conditions):
                return "(" + " AND ".join(map(self.condition, conditions)) + ")"
            case AnyOf(conditions):
                return "(" + " OR ".join(map(self.condition, conditions)) + ")"

    def update(self, actions: Sequence[Action]) -> str:
        """Return the actions as an UpdateExpression."""
        sets: list[str] = []
        removes: list[str] = []
        for action in actions:
            match action:
                case Set(path, value):
                    sets.append(f"{self._path(path)} = {self._value(value)}")
                case Copy(path, from_path):
                    sets.append(f"{self._path(path)} = {self._path(from_path)}")
                case Add(path, amount):
                    name = self._path(path)
                    sets.append(f"{name} = if_not_exists({name}, {self._value(0)}) + {self._value(amount)}")
                case Append(path, values):
                    name = self._path(path)
                    sets.append(f"{name} = list_append({name}, {self._value(list(values))})")
                case RemoveFirst(path, count):
                    removes += (f"{self._path(path)}[{index}]" for index in range(count))
                case Remove(path):
                    removes.append(self._path(path))
        clauses = [f"SET {', '.join(sets)}"] if sets else []
        if removes:
            clauses.append(f"REMOVE {', '.join(removes)}")
        return " ".join(clauses)

    def _path(self, path: Path) -> str:
        return ".".join(self.names.setdefault(name, f"#{len(self.names)}") for name in path)

    def _value(self, value: Value) -> str:
        placeholder = f":{len(self.values)}"
        self.values[placeholder] = value
        return placeholder

    def _is_of_type(self, path: Path, value: Value) -> str:
        return f"attribute_type({self._path(path)}, {self._value(_KINDS[type(value)])})"


def condition_operators(condition: Condition) -> int:
    """Count the operators and functions in a condition's text: comparisons, AND, OR, NOT and each function."""
    match condition:
        case Exists() | Absent() | Compare(_, "=", _):
            return 1
        case Compare() | Contains():
            return 3  # attribute_type, AND, and the comparison or contains
        case Not(inner):
            return 1 + condition_operators(inner)
        case AllOf(conditions) | AnyOf(conditions):
            return len(conditions) - 1 + sum(map(condition_operators, conditions))


def update_operators(actions: Sequence[Action]) -> int:
    """Count the operators and functions in an update's text: +, if_not_exists and list_append."""
    return sum(2 if isinstance(action, Add) else 1 if isinstance(action, Append) else 0 for action in actions)


def share_of_limits(update: Update) -> float:
    """Return how much of the limits of an expression an update takes; above 1 every backend rejects it."""
    expressions = Expressions()
    text, operators = len(expressions.update(update.actions)), update_operators(update.actions)
    if update.condition is not None:
        text = max(text, len(expressions.condition(update.condition)))
        operators = max(operators, condition_operators(update.condition))
    return max(text / TABLE_EXPRESSION_BYTES_MAX, operators / TABLE_EXPRESSION_OPERATORS_MAX)
