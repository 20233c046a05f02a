"""One text for both faces of a client.

A method of a synchronous client has the docstring of the asynchronous method that it runs, unless it has its own, so
that `help(odradek.Admin.create_topics)` and the API reference answer for either face.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def documented_by(asynchronous: type) -> Callable[[type[T]], type[T]]:
    """Give the public methods of the decorated class that have no docstring those of `asynchronous`."""

    def fill(face: type[T]) -> type[T]:
        for name, member in vars(face).items():
            if not name.startswith("_") and callable(member) and not member.__doc__:
                member.__doc__ = getattr(asynchronous, name).__doc__
        return face

    return fill
