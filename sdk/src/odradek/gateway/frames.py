"""A stream of bytes to frames: 4 bytes of length (big endian), then so many bytes.

    staging   [ handed out | received, not yet a frame | free ]     64 KiB, for small frames and the heads of large ones
    large     [ received | room | not asked for yet ]               a frame of its own, filled by the socket

A small frame is copied out of the staging buffer; a large one is received where it stays, and moves to twice the room
when that is full. Memory is asked for as bytes arrive: a length that is only announced costs its peer four bytes and
us nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from odradek.errors import ErrorCode, FormatError
from odradek.model.log import Buffer

STAGING_BYTES = 64 * 1024
_LENGTH_BYTES = 4


class FrameReader:
    """Cuts a connection's bytes into frames.

    Args:
        bytes_max: of one frame; a longer one is a FormatError.
        may_hold: whether so many bytes more may be held: a small frame, or more room for a large one. Where not,
            `blocked` is set and nothing more is cut until `resume`.
    """

    def __init__(self, bytes_max: int, may_hold: Callable[[int], bool]) -> None:
        self.bytes_max = bytes_max
        self.blocked = False
        self._may_hold = may_hold
        self._staging = bytearray(STAGING_BYTES)
        self._start = 0
        self._end = 0
        self._large: bytearray | None = None
        self._size = 0  # of the large frame
        self._room = 0  # of it, that may be held
        self._filled = 0

    @property
    def reserved_bytes(self) -> int:
        """Held for the large frame that is being received."""
        return 0 if self._large is None else self._room

    @property
    def partial_bytes(self) -> int:
        """What is there of a frame that is not whole."""
        return self._end - self._start if self._large is None else self._filled

    def free(self) -> memoryview:
        """Where the next bytes go; not empty unless `blocked`. Ends what earlier views are for."""
        if self._large is not None:
            if len(self._large) < self._room:
                larger = bytearray(self._room)  # a bytearray does not grow while a view of it is anywhere
                larger[: self._filled] = self._large
                self._large = larger
            return memoryview(self._large)[self._filled :]
        if self._end == STAGING_BYTES:
            size = self._end - self._start
            self._staging[:size] = self._staging[self._start : self._end]
            self._start, self._end = 0, size
        return memoryview(self._staging)[self._end :]

    def received(self, count: int) -> Iterator[Buffer]:
        """Take in `count` bytes that were put into `free()`; gives the frames that are complete. Raises FormatError."""
        if self._large is None:
            self._end += count
            yield from self._cut()
            return
        self._filled += count
        if self._filled == self._size:
            frame, self._large = self._large, None
            yield frame
        else:
            self._make_room()

    def resume(self) -> Iterator[Buffer]:
        """Go on after `blocked`. Raises FormatError."""
        self.blocked = False
        if self._large is None:
            yield from self._cut()
        else:
            self._make_room()

    def _make_room(self) -> None:
        """For as much of the large frame as is there already."""
        if self._filled < self._room:
            return
        room = min(self._size, 2 * self._room)
        if self._may_hold(room - self._room):
            self._room = room
        else:
            self.blocked = True

    def _cut(self) -> Iterator[Buffer]:
        while (received := self._end - self._start - _LENGTH_BYTES) >= 0:
            body = self._start + _LENGTH_BYTES
            size = int.from_bytes(self._staging[self._start : body], "big", signed=True)
            if not 0 <= size <= self.bytes_max:
                raise FormatError(
                    f"a frame of {size} bytes; the most is {self.bytes_max}. Is this a Kafka client without TLS?",
                    ErrorCode.INVALID_REQUEST,
                )
            if received >= size:
                if not self._may_hold(size):
                    self.blocked = True
                    return
                frame = bytes(self._staging[body : body + size])
                self._start = body + size
                yield frame
                continue
            if size + _LENGTH_BYTES > STAGING_BYTES:
                room = min(size, 2 * STAGING_BYTES)
                if not self._may_hold(room):
                    self.blocked = True
                    return
                self._large, self._size, self._room = bytearray(room), size, room
                self._large[:received] = self._staging[body : self._end]
                self._filled = received
                self._start = self._end = 0
            break
        if self._start == self._end:
            self._start = self._end = 0
