"""A connection to a broker that asks exactly what a probe says, and tells exactly what came back."""

from __future__ import annotations

import itertools
import socket
import struct
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from tests.peers.codec import Malformed, decode, encode, encode_string, unsigned_varint
from tests.peers.schemas import Schemas

ANSWER_S = 30.0
API_VERSIONS = "ApiVersions"


class Closed(Exception):
    """The broker closed the connection instead of answering."""


class Silent(Exception):
    """The broker neither answered nor closed the connection in time."""


class Connection:
    """One TCP connection; use it as a context manager.

    Args:
        servers: host:port.
        schemas: of the messages.
        client_id: in every request's header; None for null.
        answer_s: how long an answer is waited for.
    """

    def __init__(
        self, servers: str, schemas: Schemas, client_id: str | None = "probe", answer_s: float = ANSWER_S
    ) -> None:
        host, _, port = servers.rpartition(":")
        self.schemas, self.client_id = schemas, client_id
        self.socket = socket.create_connection((host, int(port)), timeout=answer_s)
        self._correlation_ids = itertools.count(1)

    # --- requests ----------------------------------------------------------------------------------------------------

    def call(self, api: str, version: int, **values: Any) -> dict[str, Any]:
        """Send a request and wait for its response. Raises Closed, Silent or Malformed."""
        correlation_id = self.send(api, version, values)
        return self.receive(api, version, correlation_id)

    def send(self, api: str, version: int, values: Mapping[str, Any]) -> int:
        """Send a request; return its correlation id."""
        return self.send_body(api, version, encode(self.schemas.request(api), version, values))

    def send_body(self, api: str, version: int, body: bytes) -> int:
        """Send a request of a body that no schema allows, after a proper header; return its correlation id."""
        correlation_id = next(self._correlation_ids)
        is_flexible = version in self.schemas.request(api).flexible
        header = struct.pack(">hhi", self.schemas.keys[api], version, correlation_id)
        header += encode_string(self.client_id, is_compact=False) + (unsigned_varint(0) if is_flexible else b"")
        self.send_frame(header + body)
        return correlation_id

    def send_frame(self, frame: bytes) -> None:
        """Send bytes after their length."""
        self.send_bytes(struct.pack(">i", len(frame)) + frame)

    def send_bytes(self, data: bytes) -> None:
        """Send bytes as they are. Raises Closed."""
        try:
            self.socket.sendall(data)
        except (ConnectionError, BrokenPipeError):
            raise Closed from None

    # --- responses ---------------------------------------------------------------------------------------------------

    def receive(self, api: str, version: int, correlation_id: int | None = None) -> dict[str, Any]:
        """Wait for the response to a request of this API and version. Raises Closed, Silent or Malformed.

        A version of ApiVersions that the broker does not have is answered in version 0.
        """
        frame = self.receive_frame()
        message = self.schemas.response(api)
        if correlation_id is not None and (got := int.from_bytes(frame[:4], "big")) != correlation_id:
            raise Malformed(f"correlation id {got} answers {correlation_id}")
        is_flexible = version in message.flexible and api != API_VERSIONS
        if is_flexible and frame[4:5] != b"\0":
            raise Malformed("the response's header has tagged fields")
        body = frame[5 if is_flexible else 4 :]
        if api == API_VERSIONS and body[:2] == b"\x00\x23":
            version = 0
        return decode(message, version, body)

    def receive_frame(self) -> bytes:
        """Wait for a frame; return it without its length. Raises Closed or Silent."""
        return self.receive_bytes(int.from_bytes(self.receive_bytes(4), "big"))

    def receive_bytes(self, count: int) -> bytes:
        """Wait for so many bytes. Raises Closed or Silent."""
        data = b""
        while len(data) < count:
            try:
                part = self.socket.recv(min(count - len(data), 1 << 20))
            except TimeoutError:
                raise Silent from None
            except ConnectionError:
                raise Closed from None
            if not part:
                raise Closed
            data += part
        return data

    def is_closed(self, within_s: float = 5.0) -> bool:
        """Return True if the broker closes the connection within that time and sends nothing more before."""
        before = self.socket.gettimeout()
        self.socket.settimeout(within_s)
        try:
            return self.socket.recv(1) == b""
        except TimeoutError:
            return False
        except ConnectionError:
            return True
        finally:
            self.socket.settimeout(before)

    def close(self) -> None:
        """Close it. May be called twice."""
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
