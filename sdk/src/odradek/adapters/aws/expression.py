"""Conditions and actions as DynamoDB's expressions.

Every name and value is a placeholder (`#0`, `:0`), so reserved words, dots and bytes need no care. Where DynamoDB's
operators say more than the port's, the port's meaning is spelled out:

    Compare        true only of a value of the same type, so the type is asked for too (not for "=", which implies it)
    Contains       true of lists only, where DynamoDB would also look into text and bytes
    Add            SET p = if_not_exists(p, 0) + n, since the ADD clause takes no nested paths
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from odradek.adapters.aws.attribute_values import AttributeValue, to_attribute
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
    Value,
)


class Expressions:
    """The expressions of one request and the placeholders they share."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._values: dict[str, AttributeValue] = {}

    def parameters(self) -> dict[str, Any]:
        """The request's parameters that say what the placeholders stand for."""
        parameters: dict[str, Any] = {}
        if self._names:
            parameters["ExpressionAttributeNames"] = {each: name for name, each in self._names.items()}
        if self._values:
            parameters["ExpressionAttributeValues"] = self._values
        return parameters

    def condition(self, condition: Condition) -> str:
        """The condition as a ConditionExpression."""
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
            case AllOf(conditions):
                return "(" + " AND ".join(map(self.condition, conditions)) + ")"
            case AnyOf(conditions):
                return "(" + " OR ".join(map(self.condition, conditions)) + ")"

    def update(self, actions: Sequence[Action]) -> str:
        """The actions as an UpdateExpression."""
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
        return ".".join(self._names.setdefault(name, f"#{len(self._names)}") for name in path)

    def _value(self, value: Value) -> str:
        placeholder = f":{len(self._values)}"
        self._values[placeholder] = to_attribute(value)
        return placeholder

    def _is_of_type(self, path: Path, value: Value) -> str:
        (kind,) = to_attribute(value)
        return f"attribute_type({self._path(path)}, {self._value(kind)})"
