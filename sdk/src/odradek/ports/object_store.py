"""Objects: create-only uploads, ranged reads. S3, files or a dict. Names are never reused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from odradek.model.log import Buffer


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    key: str
    size_bytes: int
    last_modified_ms: int


class ObjectStore(Protocol):
    """Immutable objects under slash-separated keys."""

    async def put(self, key: str, parts: Sequence[Buffer]) -> None:
        """Create the object from the parts in order; durable on return.

        Raises:
            ObjectExists: the key exists (an earlier attempt of the caller may have created it).
            StoreUnavailable: certainly not written.
            StoreRejected: certainly not written, now and always: the key or the content is too long.
            OutcomeUnknown: may have been written.
        """
        ...

    async def get(self, key: str) -> bytes:
        """Return the whole object. Raises ObjectMissing, StoreUnavailable."""
        ...

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        """Return up to `length` bytes from `start` (shorter at the object's end, empty past it).

        Raises ObjectMissing, StoreUnavailable.
        """
        ...

    async def head(self, key: str) -> ObjectInfo | None:
        """Return size and time, or None. Raises StoreUnavailable."""
        ...

    async def list(self, prefix: str, *, start_after: str = "", limit: int | None = None) -> list[ObjectInfo]:
        """Return objects under the prefix with a key after `start_after`, ordered by key. Raises StoreUnavailable.

        Never called on the path of a produce or fetch.
        """
        ...

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete the objects; missing ones are ignored. Raises StoreUnavailable, OutcomeUnknown."""
        ...
