"""Shared parts of the ports' contracts: test ids, and expecting an error without a test framework."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

E = TypeVar("E", bound=BaseException)


async def failure(error_type: type[E], call: Awaitable[Any]) -> E:
    """Return the call's error of that kind; raise AssertionError if there is none."""
    try:
        result = await call
    except error_type as error:
        return error
    raise AssertionError(f"expected {error_type.__name__}, but the call answered {result!r:.200}")


def check_id(check: Callable[..., Any]) -> str:
    """Return the name of a check as a test id."""
    return check.__name__
