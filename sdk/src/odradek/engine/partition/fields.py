"""Typed access to attributes of stored items: a damaged item is a FormatError, never a TypeError somewhere later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from odradek.errors import FormatError, UnknownVersion
from odradek.ports.table import Absent, AnyOf, Compare, Condition

T = TypeVar("T", int, str, bytes, list, dict)  # type: ignore[type-arg]


def attribute(item: Mapping[str, object], name: str, kind: type[T]) -> T:
    """Return the attribute of that type. Raises FormatError if it is missing or of another type."""
    value = item.get(name)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise FormatError(f"attribute {name!r} of a stored item is {type(value).__name__}, not {kind.__name__}")
    return value


def check_version(item: Mapping[str, object], known: int, what: str) -> None:
    """Raise UnknownVersion if the item's format version `v` is not the known one."""
    if item.get("v") != known:
        raise UnknownVersion(f"{what} has format version {item.get('v')}; this release knows {known}: upgrade it")


def is_version(known: int) -> Condition:
    """Return the clause of an update without a read before it, which leaves a newer release's item unchanged."""
    return Compare(("v",), "=", known)


def is_version_or_absent(known: int) -> Condition:
    """Return the same clause for an update that may create the item."""
    return AnyOf((Absent(("v",)), is_version(known)))
