"""A loop or an `all(...)` over nothing passes: tests count what they look at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def at_least(count: int, items: Iterable[T]) -> list[T]:
    """Return the items, after an assertion that there are at least `count` of them."""
    counted = list(items)
    assert len(counted) >= count, f"{len(counted)} items are looked at, not {count}"
    return counted
