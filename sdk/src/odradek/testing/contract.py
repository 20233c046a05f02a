"""Shared parts of the ports' contracts: test ids, and expecting an error without a test framework."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

E = TypeVar("E", bound=BaseException)


async def failure(kind: type[E], call: Awaitable[Any]) -> E:
    """Return the call's error of that kind; raise AssertionError if there is none."""
    try:
        answer = await call
    except kind as error:
        return error
    raise AssertionError(f"expected {kind.__name__}, but the call answered {answer!r:.200}")


def check_id(check: Callable[..., Any]) -> str:
    """Return the name of a check as a test id."""
    return check.__name__
