"""A connection's requests: what is served together, and that answers come in the order of the requests."""

from __future__ import annotations

import asyncio
from typing import Any

from odradek.dispatcher import Arrival
from odradek.gateway.connection import Connection
from odradek.model.log import Buffer
from odradek.protocol.api import ApiKey


class Host:
    """A gateway without limits."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def opened(self, connection: Connection) -> Session:
        return self._session

    def closed(self, connection: Connection) -> None:
        pass

    def reserve(self, connection: Connection, size: int) -> bool:
        return True

    def hold(self, size: int) -> None:
        pass

    def release(self, size: int) -> None:
        pass

    def monotonic(self) -> float:
        return 0.0

    def answered(self, frame: Buffer, began_s: float, answer_bytes: int) -> None:
        pass


class Session:
    """Answers each frame with its name, when the test says so."""

    frame_bytes_max = 1_000

    def __init__(self) -> None:
        self.served: dict[bytes, asyncio.Event] = {}

    async def answer(self, frame: Buffer, arrival: Arrival | None) -> list[Buffer]:
        name = bytes(frame[2:])
        self.served[name] = asyncio.Event()
        await self.served[name].wait()
        return [name]


class Wire(asyncio.Transport):
    """What the connection has written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def answers(self) -> list[bytes]:
        found, left = [], self.written
        while left:
            size = int.from_bytes(left[:4], "big")
            found.append(left[4 : 4 + size])
            left = left[4 + size :]
        return found


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def connected(*requests: tuple[ApiKey, bytes]) -> tuple[Session, Wire]:
    """A connection over which these requests have come in one go."""
    session, wire = Session(), Wire()
    connection = Connection(Host(session), 1)
    connection.connection_made(wire)
    for key, name in requests:
        frame = int(key).to_bytes(2, "big") + name
        data = len(frame).to_bytes(4, "big") + frame
        connection.get_buffer(len(data))[: len(data)] = data
        connection.buffer_updated(len(data))
    await settle()
    return session, wire


async def test_answers_come_in_the_order_of_the_requests_whichever_is_done_first() -> None:
    session, wire = await connected((ApiKey.PRODUCE, b"first"), (ApiKey.PRODUCE, b"second"), (ApiKey.PRODUCE, b"third"))
    assert list(session.served) == [b"first", b"second", b"third"], "they are in flight together"
    session.served[b"third"].set()
    session.served[b"second"].set()
    await settle()
    assert wire.answers() == []
    session.served[b"first"].set()
    await settle()
    assert wire.answers() == [b"first", b"second", b"third"]


async def test_a_request_after_produce_sees_what_was_produced() -> None:
    session, wire = await connected(
        (ApiKey.PRODUCE, b"produce"), (ApiKey.LIST_OFFSETS, b"list"), (ApiKey.PRODUCE, b"next")
    )
    assert list(session.served) == [b"produce"]
    session.served[b"produce"].set()
    await settle()
    assert list(session.served) == [b"produce", b"list"]
    session.served[b"list"].set()
    await settle()
    assert wire.answers() == [b"produce", b"list"]
    assert list(session.served) == [b"produce", b"list", b"next"]
