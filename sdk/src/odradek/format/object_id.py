"""Object ids: 16 bytes, ordered by the time of their creation.

    bytes 0-5   milliseconds since the Unix epoch, big endian
    bytes 6-15  random

Ids never collide. Their order is that of their creators' clocks; only the sweep's hour is derived from it.
"""

from __future__ import annotations

from collections.abc import Callable

OBJECT_ID_BYTES = 16


def new_object_id(now_ms: int, random_bytes: Callable[[int], bytes]) -> bytes:
    """Return a new id with the time `now_ms`."""
    return now_ms.to_bytes(6, "big") + random_bytes(10)


def object_id_ms(object_id: bytes) -> int:
    """Return the time in the id, in ms since the epoch."""
    return int.from_bytes(object_id[:6], "big")
