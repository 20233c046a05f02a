"""Keys and values as text, for targets that take nothing else."""

from __future__ import annotations

from typing import Any

from odradek.connect.converters.json import dump
from odradek.connect.converters.json_format import to_json
from odradek.connect.data.schema import Schema


def text_of(schema: Schema | None, value: Any) -> str:
    """Return a value as text: itself, or its JSON. Raises DataError."""
    return value if isinstance(value, str) else dump(to_json(schema, value)).decode()
