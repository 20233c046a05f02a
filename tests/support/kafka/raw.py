"""A bare socket to the Kafka port: frames by hand, good ones and others."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Self


class RawConnection:
    """Sends bytes and reads frames, each within a few seconds."""

    def __init__(self, servers: str, source: str = "") -> None:
        host, _, port = servers.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=10, source_address=(source, 0))

    def send(self, frame: bytes) -> None:
        """One frame with its length."""
        self.socket.sendall(len(frame).to_bytes(4, "big") + frame)

    def send_bytes(self, data: bytes) -> None:
        """Bytes as they are."""
        self.socket.sendall(data)

    def receive(self) -> bytes:
        """One frame without its length. Raises EOFError where the peer closed."""
        return self._exactly(int.from_bytes(self._exactly(4), "big"))

    def is_closed_by_peer(self) -> bool:
        """Return True if the peer closes the connection next."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise EOFError("the peer closed the connection")
            data += part
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()
