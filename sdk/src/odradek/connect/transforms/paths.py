"""Paths to nested fields (KIP-821): with field.syntax.version V2, `a.b` is the field b of the field a.

A step that contains dots is put into backticks; a backtick before a dot, in backticks, is escaped by a backslash.

Source: Kafka's org.apache.kafka.connect.transforms.field.SingleFieldPath.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odradek.connect.config import ConfigDef, Kind, one_of
from odradek.connect.data.schema import Schema, Type
from odradek.connect.data.structs import Struct
from odradek.connect.errors import ConfigError, DataError

SYNTAX = ConfigDef().define(
    "field.syntax.version",
    Kind.STRING,
    "V1",
    "V1: the text is a field's name. V2: dots lead to nested fields; backticks around a name that contains dots.",
    importance="HIGH",
    allowed=one_of("V1", "V2", ignore_case=True),
)


class FieldPath:
    """The way to a field. Raises ConfigError for backticks that do not match."""

    def __init__(self, text: str, version: str) -> None:
        self.text = text
        self._steps = [text] if version.upper() == "V1" else _steps(text)

    def schema_in(self, schema: Schema) -> Schema | None:
        """Return the schema of the field in a struct's schema, or None if there is no such field."""
        current: Schema | None = schema
        for step in self._steps:
            step_field = None if current is None or current.type is not Type.STRUCT else current.field(step)
            current = None if step_field is None else step_field.schema
        return current

    def value_in_struct(self, struct: Struct, *, with_default: bool) -> Any:
        """Return the field's value, None if it or one on the way is missing or null."""
        current: Any = struct
        for step in self._steps[:-1]:
            current = current.get(step)
            if current is None:
                return None
            if not isinstance(current, Struct):
                raise DataError(f"the path {self.text!r} leads through {step!r}, which is not a struct")
        last = self._steps[-1]
        if last not in current:
            return None
        return current[last] if with_default else current.without_default(last)

    def value_in_map(self, values: Mapping[str, Any]) -> Any:
        """Return the value in nested maps, None if it or one on the way is missing or null."""
        current: Any = values
        for step in self._steps[:-1]:
            current = current.get(step)
            if current is None:
                return None
            if not isinstance(current, Mapping):
                raise DataError(f"the path {self.text!r} leads through {step!r}, which is not a map")
        return current.get(self._steps[-1])


def _steps(path: str) -> list[str]:
    steps: list[str] = []
    at = 0
    while at < len(path):
        if path[at] != "`":
            step, dot, _ = path[at:].partition(".")
            steps.append(step)
            at += len(step) + len(dot)
        else:
            step, at = _quoted(path, at)
            steps.append(step)
    if path.endswith("."):
        steps.append("")
    if not steps:
        raise ConfigError("the path to a field must not be empty")
    return steps


def _quoted(path: str, opened: int) -> tuple[str, int]:
    """Return the step in backticks that begins at `opened`, and where the next one begins."""
    parts: list[str] = []
    start = at = opened + 1
    while (at := path.find("`", at)) >= 0:
        is_escaped = path[at - 1] == "\\"
        if at == len(path) - 1:
            if is_escaped:
                break
            return "".join([*parts, path[start:at]]), at + 1
        if path[at + 1] != ".":
            at += 1  # part of the name
        elif is_escaped:
            parts += [path[start : at - 1], "`"]
            at += 1
            start = at
        else:
            return "".join([*parts, path[start:at]]), at + 2
    raise ConfigError(f"the backtick at position {opened} of {path!r} is not closed")
