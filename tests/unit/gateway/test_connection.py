"""A connection's memory is given back, whatever it was doing when its peer went."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from odradek.gateway.connection import Connection

PRODUCE = b"\0\0\0\3" + b"x" * 1_000
METADATA = b"\0\3\0\1" + b"y" * 1_000


class FakeSession:
    frame_bytes_max = 1_000_000
    is_open = True

    async def answer(self, frame: Any, arrival: Any) -> list[bytes]:
        await asyncio.sleep(3600)
        return []


class FakeHost:
    """Counts what is reserved."""

    def __init__(self) -> None:
        self.reserved = 0

    def opened(self, connection: Connection) -> FakeSession:
        return FakeSession()

    def closed(self, connection: Connection) -> None:
        pass

    def reserve(self, connection: Connection, size: int, *, is_small: bool) -> bool:
        self.reserved += size
        return True

    def completed(self, connection: Connection) -> None:
        pass

    def release(self, size: int) -> None:
        self.reserved -= size

    def monotonic(self) -> float:
        return 0.0

    def answered(self, frame: Any, began_s: float, answer_bytes: int) -> None:
        pass


class FakeTransport(asyncio.Transport):
    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0


@pytest.mark.parametrize("turns", range(6))
@pytest.mark.parametrize(
    "sent",
    [
        len(PRODUCE).to_bytes(4, "big") + PRODUCE,
        (len(PRODUCE).to_bytes(4, "big") + PRODUCE) * 20,
        (len(METADATA).to_bytes(4, "big") + METADATA) * 3,
        len(METADATA).to_bytes(4, "big") + METADATA[:500],
        (900_000).to_bytes(4, "big") + b"z" * 1_000,
    ],
)
async def test_what_was_reserved_is_released(sent: bytes, turns: int) -> None:
    """However far the requests have come: received, handed to a task that has not begun yet, being answered."""
    host = FakeHost()
    connection = Connection(host, 1)  # type: ignore[arg-type]
    connection.connection_made(FakeTransport())
    await asyncio.sleep(0)
    view = connection.get_buffer(-1)
    view[: len(sent)] = sent
    connection.buffer_updated(len(sent))
    for _ in range(turns):
        await asyncio.sleep(0)
    connection.connection_lost(None)
    for _ in range(10):
        await asyncio.sleep(0)
    assert host.reserved == 0
