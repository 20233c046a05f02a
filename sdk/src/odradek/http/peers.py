"""Limits on the peers of an HTTP port.

connections beyond http_connections_max               closed at once
a request's head not complete in http_read_timeout_ms closed
a response not read within http_read_timeout_ms       closed
"""

from __future__ import annotations

import logging
from typing import Protocol

from odradek.ports.clock import Clock
from odradek.settings import Settings

IDLE_S = 75.0  # between two requests of a connection
_SWEEP_S = 1.0


class Watch:
    """Since when a peer is awaited: a decision of three facts that its connection reports."""

    __slots__ = ("_head_s", "_running", "_stalled_s", "_unsent")

    def __init__(self, now_s: float) -> None:
        self._head_s: float | None = now_s  # since when a head is awaited
        self._stalled_s: float | None = None
        self._unsent = 0
        self._running = 0

    def arrived(self, now_s: float) -> None:
        """Note bytes: the first ones after a response begin a request."""
        if self._head_s is None and not self._running:
            self._head_s = now_s

    def begin(self) -> None:
        """Note that a head is complete."""
        self._running += 1
        self._head_s = None

    def end(self) -> None:
        """Note that a request was answered."""
        self._running = max(self._running - 1, 0)

    def forget_head(self) -> None:
        """Note that no head is awaited: what was sent is none."""
        self._head_s = None

    def is_late(self, now_s: float, limit_s: float, unsent: int) -> bool:
        """Return True if the peer does not send, or does not read, in time. Args: unsent: bytes that it has to read."""
        if self._head_s is not None and now_s - self._head_s > limit_s:
            return True
        if not unsent or unsent < self._unsent or self._stalled_s is None:
            self._stalled_s = now_s if unsent else None
        elif now_s - self._stalled_s > limit_s:
            return True
        self._unsent = unsent
        return False


class Peer(Protocol):
    """A connection of a port."""

    def check(self, now_s: float, limit_s: float) -> None:
        """End the connection if its peer is late."""


class Peers:
    """The connections of a port.

    Args:
        name: the port's name in the log.
    """

    def __init__(self, name: str, settings: Settings, clock: Clock) -> None:
        self._name = name
        self._settings = settings
        self._clock = clock
        self._peers: set[Peer] = set()
        self._refused_s = -1.0
        self._logger = logging.getLogger(__name__)

    @property
    def read_s(self) -> float:
        """The time that a peer has to send, or to read."""
        return self._settings.http_read_timeout_ms / 1000

    def now_s(self) -> float:
        return self._clock.monotonic()

    def accept(self, peer: Peer) -> bool:
        """Accept a connection, unless there are too many."""
        if len(self._peers) >= self._settings.http_connections_max:
            now_s = self.now_s()
            if now_s - self._refused_s >= 1:  # a flood of connections must not flood the log
                self._refused_s = now_s
                self._logger.warning("%s: connections refused: there are %d already", self._name, len(self._peers))
            return False
        self._peers.add(peer)
        return True

    def forget(self, peer: Peer) -> None:
        self._peers.discard(peer)

    async def sweep(self) -> None:
        """End the connections of late peers, until cancelled."""
        while True:
            await self._clock.sleep(min(_SWEEP_S, self.read_s / 2))
            now_s = self.now_s()
            for peer in list(self._peers):
                peer.check(now_s, self.read_s)
