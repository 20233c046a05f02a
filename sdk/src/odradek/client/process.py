"""The process that a client belongs to.

After os.fork() the child has a copy of the parent's clients, but not their threads: a call would wait for ever. What
the copies have in common with the parent's are its connections. A client is therefore unusable in a child and says so
at once: a record that the parent has buffered is sent by the parent, once, and closing the copy does nothing.

Source: fork(2); Python's os.register_at_fork, which also covers multiprocessing and servers that fork in C.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet

from odradek.errors import ErrorCode, KafkaError

forks = 0
"""The number of forks between the first process and this one: read it as `process.forks`."""


class Inherited(Protocol):
    """Holds what a child must not share with its parent."""

    def forked(self) -> None:
        """Give up the child's copies. Called in the child, before any other code of it."""
        ...


_inherited: WeakSet[Inherited] = WeakSet()


class Origin:
    """The process that an object was created in."""

    __slots__ = ("_forks",)

    def __init__(self) -> None:
        self._forks = forks

    @property
    def is_parent(self) -> bool:
        """True in a child of the process that created the object."""
        return self._forks != forks

    def check(self) -> None:
        """Raise KafkaError(INVALID_REQUEST) in a child of the process that created the object."""
        if self._forks != forks:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "the client was created before this process was forked, and belongs to the parent: create the client "
                "in the child, after the fork",
            )


def tell_child(holder: Inherited) -> None:
    """Call `holder.forked()` in every child that is forked while the holder exists."""
    _inherited.add(holder)


def _forked() -> None:
    global forks
    forks += 1
    for holder in list(_inherited):
        holder.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
