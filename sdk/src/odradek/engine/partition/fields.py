"""Typed access to attributes of stored items: a damaged item is a FormatError, never a TypeError somewhere later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from odradek.errors import FormatError, UnknownVersion
from odradek.ports.table import Absent, AnyOf, Compare, Condition

T = TypeVar("T", int, str, bytes, list, dict)  # type: ignore[type-arg]


def attribute(item: Mapping[str, object], name: str, kind: type[T]) -> T:
    """The attribute of that type. Raises FormatError where it is missing or of another type."""
    value = item.get(name)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise FormatError(f"a stored item holds {type(value).__name__} under {name!r} where {kind.__name__} belongs")
    return value


def check_version(item: Mapping[str, object], known: int, what: str) -> None:
    """Raises UnknownVersion where the item's format version `v` is not the one known."""
    if item.get("v") != known:
        raise UnknownVersion(f"{what} has format version {item.get('v')}; this release knows {known}: upgrade it")


def is_version(known: int) -> Condition:
    """The clause of an update that reads nothing before it: a newer release's item stays as it is."""
    return Compare(("v",), "=", known)


def is_version_or_absent(known: int) -> Condition:
    """The same where the update may make the item."""
    return AnyOf((Absent(("v",)), is_version(known)))
