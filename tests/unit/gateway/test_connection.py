"""A connection: its memory is given back, whatever it was doing when its peer went; its responses are in order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from odradek.gateway.connection import REQUESTS_MAX, Connection

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


class OrderedSession:
    """Answers a request when the test says so, with its last byte; 'n' has no response."""

    frame_bytes_max = 1_000_000
    is_open = True

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.may_answer: dict[str, asyncio.Event] = {name: asyncio.Event() for name in "abcdn"}

    async def answer(self, frame: Any, arrival: Any) -> list[bytes] | None:
        name = chr(frame[-1])
        self.asked.append(name)
        await self.may_answer[name].wait()
        return None if name == "n" else [b"<", name.encode(), b">"]


class Sends(FakeTransport):
    """Each send, with the names of the responses in it."""

    def __init__(self) -> None:
        super().__init__()
        self.sends: list[str] = []
        self.is_closed = False

    def is_closing(self) -> bool:
        return self.is_closed

    def writelines(self, parts: Any) -> None:
        sent = b"".join(parts)
        names = ""
        while sent:
            size = int.from_bytes(sent[:4], "big")
            assert (sent[4:5], sent[3 + size : 4 + size]) == (b"<", b">")
            names += sent[5 : 3 + size].decode()
            sent = sent[4 + size :]
        self.sends.append(names)

    def close(self) -> None:
        self.is_closed = True


class OrderedConnection:
    """A connection that has received requests: names in upper case are Produce requests."""

    def __init__(self, requests: str) -> None:
        self.session = OrderedSession()
        host = FakeHost()
        host.opened = lambda connection: self.session  # type: ignore[method-assign,assignment,return-value]
        self.transport = Sends()
        self.connection = Connection(host, 1)  # type: ignore[arg-type]
        self.connection.connection_made(self.transport)
        sent = b"".join(
            len(body).to_bytes(4, "big") + body
            for body in (
                (PRODUCE if request.isupper() else METADATA) + request.lower().encode() for request in requests
            )
        )
        self.connection.get_buffer(-1)[: len(sent)] = sent
        self.connection.buffer_updated(len(sent))

    async def complete(self, names: str) -> None:
        for name in names:
            self.session.may_answer[name].set()
        await self.rest()

    async def rest(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)


async def test_responses_have_the_order_of_their_requests() -> None:
    peer = OrderedConnection("ABC")
    await peer.complete("c")
    await peer.complete("b")
    assert peer.transport.sends == []
    await peer.complete("a")
    assert "".join(peer.transport.sends) == "abc"


async def test_responses_that_are_complete_together_are_one_send() -> None:
    peer = OrderedConnection("ABCD")
    await peer.rest()
    await peer.complete("abc")
    assert peer.transport.sends == ["abc"]
    await peer.complete("d")
    assert peer.transport.sends == ["abc", "d"]


async def test_a_request_without_a_response_holds_back_nobody() -> None:
    peer = OrderedConnection("NAB")
    await peer.complete("ab")
    assert peer.transport.sends == []
    await peer.complete("n")
    assert "".join(peer.transport.sends) == "ab"


async def test_other_requests_begin_when_all_before_them_are_answered() -> None:
    peer = OrderedConnection("ABcD")
    await peer.rest()
    assert peer.session.asked == ["a", "b"]
    await peer.complete("b")
    assert peer.session.asked == ["a", "b"]
    await peer.complete("a")
    assert peer.session.asked == ["a", "b", "c"]
    await peer.complete("cd")
    assert "".join(peer.transport.sends) == "abcd"


async def test_a_connection_that_drains_answers_what_it_received_and_closes() -> None:
    peer = OrderedConnection("AB")
    await peer.rest()
    peer.connection.drain()
    await peer.complete("b")
    assert not peer.transport.is_closed
    await peer.complete("a")
    assert "".join(peer.transport.sends) == "ab"
    assert peer.transport.is_closed


async def test_a_peer_that_sends_more_than_it_waits_for_takes_no_memory_for_it() -> None:
    """Later requests stay in the buffer of the socket's bytes until earlier ones are answered."""
    host = FakeHost()
    connection = Connection(host, 1)  # type: ignore[arg-type]
    connection.connection_made(FakeTransport())
    frame = (8).to_bytes(4, "big") + b"\0\3\0\1\0\0\0\0"
    sent = frame * (REQUESTS_MAX + 3)
    connection.get_buffer(-1)[: len(sent)] = sent
    connection.buffer_updated(len(sent))
    assert host.reserved == 8 * REQUESTS_MAX
    connection.connection_lost(None)
