"""One request and its response over a socket, in HTTP/1.1 (RFC 9112).

    PUT /key HTTP/1.1                      HTTP/1.1 200 OK
    host: bucket.s3.amazonaws.com          date: ...
    content-length: 3                      content-length: 0 | transfer-encoding: chunked | neither: up to the end

What AWS's services send is a small part of HTTP: no trailers that matter, no continuation lines, no upgrades.
http.client reads headers with the parser of mails, which took 0.3 ms of the 0.75 of a small call
(docs/decisions/0074).
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import BinaryIO, Final, NamedTuple, cast

_LINE_MAX: Final = 65_536
_LINES_MAX: Final = 200  # headers of a response
_JOINED_MAX: Final = 65_536  # bytes of a body that are sent along with the head, not after it


class Malformed(Exception):
    """What came is no response of HTTP/1.1, or ends too early: what became of the request is unknown."""


class Answer(NamedTuple):
    """A response, read to its end.

    Attributes:
        headers: by lower-case names; of repeated ones the first.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


class Exchanges:
    """A connection, for one request after another."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._reader = cast(BinaryIO, sock.makefile("rb"))

    def close(self) -> None:
        self._reader.close()
        self.sock.close()

    def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[Answer, bool]:
        """Send a request and read its response; return it, and whether the connection can be used again.

        Args:
            path: percent-encoded.

        Raises ValueError for a header of several lines, before anything is sent; OSError, Malformed.
        """
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        if not lines.count("\n") == lines.count("\r") == len(headers):
            raise ValueError("a header has a line break")
        head = f"{method} {path} HTTP/1.1\r\n{lines}accept-encoding: identity\r\n"
        if body or method in ("PUT", "POST"):
            head += f"content-length: {len(body)}\r\n"
        is_whole = self._sent(f"{head}\r\n".encode("latin-1"), body)
        response, is_kept = self._answer(method)
        return response, is_kept and is_whole

    def _sent(self, head: bytes, body: bytes) -> bool:
        """Send; return False if the other side has closed meanwhile: whoever refuses a request early says why."""
        try:
            if len(body) <= _JOINED_MAX:
                self.sock.sendall(head + body)
            else:
                self.sock.sendall(head)
                self.sock.sendall(body)
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def _answer(self, method: str) -> tuple[Answer, bool]:
        status = 100
        while status < 200:  # interim responses have nothing but a head
            version, status = self._status()
            headers = self._headers()
        is_kept = version == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
        if method == "HEAD" or status in (204, 304):
            return Answer(status, headers, b""), is_kept
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return Answer(status, headers, self._chunks()), is_kept
        if (length := headers.get("content-length")) is not None:
            return Answer(status, headers, self._exactly(_number(length, 10))), is_kept
        return Answer(status, headers, self._reader.read()), False

    def _status(self) -> tuple[str, int]:
        version, _, remainder = self._line().partition(" ")
        code = remainder[:3]
        if not version.startswith("HTTP/1.") or not (len(code) == 3 and code.isascii() and code.isdigit()):
            raise Malformed("the response has no status line")
        return version, int(code)

    def _headers(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        for _ in range(_LINES_MAX):
            line = self._line()
            if not line:
                return headers
            name, _, value = line.partition(":")
            headers.setdefault(name.lower(), value.strip())
        raise Malformed(f"the response has more than {_LINES_MAX} headers")

    def _line(self) -> str:
        line = self._reader.readline(_LINE_MAX)
        if not line.endswith(b"\n"):
            raise Malformed("the response ends within its head" if len(line) < _LINE_MAX else "a header is too long")
        return line.rstrip(b"\r\n").decode("latin-1")

    def _chunks(self) -> bytes:
        chunks = []
        while size := _number(self._line().partition(";")[0].strip(), 16):
            chunks.append(self._exactly(size))
            self._line()
        self._headers()  # trailers
        return b"".join(chunks)

    def _exactly(self, size: int) -> bytes:
        content = self._reader.read(size)
        if len(content) != size:
            raise Malformed(f"the response ends after {len(content)} of {size} bytes")
        return content


def _number(digits: str, base: int) -> int:
    """Return the number. Raises Malformed for anything but digits (RFC 9110, section 8.6)."""
    if not digits.isalnum() or not digits.isascii():
        raise Malformed("the response has a length that is no number")
    try:
        return int(digits, base)
    except ValueError as error:
        raise Malformed("the response has a length that is no number") from error
