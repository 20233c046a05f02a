"""Configurations of clients in a properties file, with Kafka's names: what --command-config names for Kafka's tools.

    # a comment
    bootstrap.servers=https://...
    request.timeout.ms=20000

Only what every client has may be in it: a command has clients of several kinds.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from odradek.client.config import AdminConfig
from odradek.errors import ErrorCode, KafkaError

_NOT_IN_A_FILE = frozenset({"transport", "clock", "rng"})
_BOOLEANS = {"true": True, "false": False}


def read_properties(path: Path) -> dict[str, Any]:
    """Return the configurations of a file. Raises KafkaError(INVALID_CONFIG) that names the line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"cannot read the configuration file {path}: {reason}") from None
    types_by_name = {field.name: str(field.type) for field in fields(AdminConfig) if field.name not in _NOT_IN_A_FILE}
    configs: dict[str, Any] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text[0] in "#!":
            continue
        name, equals, value = text.partition("=")
        ours = name.strip().replace(".", "_")
        if not equals or ours not in types_by_name:
            dotted = ", ".join(sorted(name.replace("_", ".") for name in types_by_name))
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"{path}, line {number}: use name=value with one of {dotted}, not {text[:60]!r}",
            )
        configs[ours] = _value(value.strip(), types_by_name[ours], f"{path}, line {number}: {name.strip()}")
    return configs


def _value(text: str, type_text: str, where: str) -> Any:
    """Return a value with the type of its field."""
    try:
        if "bool" in type_text:
            return _BOOLEANS[text.lower()]
        if "str" in type_text:
            return text
        return int(text) if "float" not in type_text else float(text)
    except (ValueError, KeyError):
        wanted = "true or false" if "bool" in type_text else "a number"
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{where} must be {wanted}, not {text[:60]!r}") from None
