"""One HTTP exchange: what is sent, which responses are understood, and what is made of the others."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from threading import Thread

import pytest
from odradek.adapters.aws.direct.exchange import Answer, Exchanges, Malformed


class Peer:
    """The other end of a connection, which answers each request with the next bytes and keeps what it was sent."""

    def __init__(self) -> None:
        near, self.far = socket.socketpair()
        near.settimeout(10)
        self.exchanges = Exchanges(near)
        self._threads: list[Thread] = []

    def answers(self, *responses: bytes, closes: bool = False) -> None:
        def serve() -> None:
            for response in responses:
                self.far.sendall(response)
            if closes:
                self.far.shutdown(socket.SHUT_WR)

        self._threads.append(Thread(target=serve))
        self._threads[-1].start()

    def close(self) -> None:
        for thread in self._threads:
            thread.join()
        self.exchanges.close()
        self.far.close()

    def received(self) -> bytes:
        self.exchanges.sock.shutdown(socket.SHUT_WR)
        received = b""
        while chunk := self.far.recv(65_536):
            received += chunk
        return received


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer()
    yield peer
    peer.close()


def test_a_request_and_its_response(peer: Peer) -> None:
    peer.answers(b"HTTP/1.1 200 OK\r\nDate: today\r\nContent-Length: 2\r\nX-Twice: a\r\nx-twice: b\r\n\r\n{}")
    answer, is_kept = peer.exchanges.request("POST", "/a%20b", {"host": "h", "x-amz-target": "t"}, b"body")
    assert answer == Answer(200, {"date": "today", "content-length": "2", "x-twice": "a"}, b"{}")
    assert is_kept
    assert peer.received() == (
        b"POST /a%20b HTTP/1.1\r\nhost: h\r\nx-amz-target: t\r\n"
        b"accept-encoding: identity\r\ncontent-length: 4\r\n\r\nbody"
    )


@pytest.mark.parametrize(
    ("method", "body", "expected"), [("GET", b"", False), ("HEAD", b"", False), ("PUT", b"", True), ("POST", b"", True)]
)
def test_only_what_may_have_a_body_has_a_length(peer: Peer, method: str, body: bytes, expected: bool) -> None:
    peer.answers(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
    peer.exchanges.request(method, "/", {"host": "h"}, body)
    assert (b"content-length: 0" in peer.received()) is expected


def test_a_large_body_is_sent_whole(peer: Peer) -> None:
    content = bytes(range(256)) * 4096
    received = bytearray()

    def serve() -> None:
        while len(received) < len(content) or b"\r\n\r\n" not in received:
            received.extend(peer.far.recv(65_536))
            if received.endswith(content):
                break
        peer.far.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

    thread = Thread(target=serve)
    thread.start()
    peer.exchanges.request("PUT", "/key", {"host": "h"}, content)
    thread.join()
    head, _, body = bytes(received).partition(b"\r\n\r\n")
    assert body == content
    assert b"content-length: 1048576" in head


@pytest.mark.parametrize(
    ("response", "status", "body", "is_kept"),
    [
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n1\r\nd\r\n0\r\n\r\n",
            200,
            b"abcd",
            True,
        ),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nA\r\n0123456789\r\n0\r\nt: 1\r\n\r\n",
            200,
            b"0123456789",
            True,
        ),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", True),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 412 Precondition Failed\r\ncontent-length: 0\r\n\r\n", 412, b"", True),
        (b"HTTP/1.1 200 OK\r\nconnection: Close\r\ncontent-length: 1\r\n\r\nx", 200, b"x", False),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\nx", 200, b"x", False),
        (b"HTTP/1.1 503 Slow Down\nContent-Length:1 \n\nx", 503, b"x", True),
        (b"HTTP/1.1 200\r\n\r\nup to the end", 200, b"up to the end", False),
    ],
)
def test_responses(peer: Peer, response: bytes, status: int, body: bytes, is_kept: bool) -> None:
    peer.answers(response, closes=b"length" not in response and b"chunked" not in response)
    answer, kept = peer.exchanges.request("GET", "/", {"host": "h"}, b"")
    assert (answer.status, answer.body, kept) == (status, body, is_kept)


def test_a_head_is_answered_without_a_body(peer: Peer) -> None:
    peer.answers(b"HTTP/1.1 200 OK\r\ncontent-length: 17\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx")
    assert peer.exchanges.request("HEAD", "/", {"host": "h"}, b"")[0].headers["content-length"] == "17"
    assert peer.exchanges.request("GET", "/", {"host": "h"}, b"")[0].body == b"x"


@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nconte",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1_0\r\n\r\n0123456789",
        b"HTTP/1.1 200 OK\r\ncontent-length: 0x1\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nab",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 201,
        b"HTTP/1.1 200 OK\r\na: " + b"b" * 70_000,
    ],
)
def test_what_is_no_whole_response_leaves_the_outcome_unknown(peer: Peer, response: bytes) -> None:
    peer.answers(response, closes=True)
    with pytest.raises(Malformed):
        peer.exchanges.request("GET", "/", {"host": "h"}, b"")


def test_who_refuses_a_request_early_is_heard(peer: Peer) -> None:
    peer.far.sendall(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\nno")
    peer.far.close()
    answer, is_kept = peer.exchanges.request("PUT", "/", {"host": "h"}, b"x" * 1_000_000)
    assert (answer.status, answer.body, is_kept) == (400, b"no", False)


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\nb", "a\n", "a\rb"])
def test_a_header_cannot_begin_another(peer: Peer, value: str) -> None:
    with pytest.raises(ValueError, match="line break"):
        peer.exchanges.request("GET", "/", {"host": "h", "range": value}, b"")
    assert peer.received() == b""
