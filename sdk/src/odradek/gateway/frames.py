"""Cutting a stream of bytes into frames: a length of 4 bytes (big endian), then that many bytes.

    staging   [ returned | received, not yet a frame | free ]       64 KiB, for small frames and the heads of large ones
    large     [ received | room | not reserved yet ]                one large frame, filled by the socket

The staging buffer is lent: a connection of which nothing incomplete has arrived holds none, so that thousands of idle
ones cost little. A small frame is copied out of it. A large one is received in place, and its buffer doubles when it is
full. Memory is reserved as bytes arrive; a length that is only announced reserves at most 128 KiB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from odradek.errors import ErrorCode, FormatError
from odradek.model.log import Buffer

STAGING_BYTES = 64 * 1024
_LENGTH_BYTES = 4
_SPARE_MAX = 64

_spare: list[bytearray] = []  # staging buffers that no connection uses; what is in them is never read again


class FrameReader:
    """Cuts a connection's bytes into frames.

    Args:
        bytes_max: of one frame; a longer one raises FormatError.
        may_hold: returns True if that many bytes more may be held, for a small frame or the buffer of a large one. If
            not, `blocked` is set and no frame is cut until `resume`.
    """

    def __init__(self, bytes_max: int, may_hold: Callable[[int], bool]) -> None:
        self.bytes_max = bytes_max
        self.blocked = False
        self._may_hold = may_hold
        self._staging: bytearray | None = None  # lent while it holds something
        self._start = 0
        self._end = 0
        self._large: bytearray | None = None
        self._size = 0  # of the large frame
        self._room = 0  # the part of it that may be held
        self._filled = 0

    @property
    def reserved_bytes(self) -> int:
        """Memory of the large frame that is being received."""
        return 0 if self._large is None else self._room

    @property
    def partial_bytes(self) -> int:
        """Received bytes of an incomplete frame."""
        return self._end - self._start if self._large is None else _LENGTH_BYTES + self._filled

    def free(self) -> memoryview:
        """Return the buffer for the next bytes, not empty unless `blocked`. Earlier views must not be used any more."""
        if self._large is not None:
            if len(self._large) < self._room:
                larger = bytearray(self._room)  # a bytearray cannot grow while a view of it exists
                larger[: self._filled] = self._large
                self._large = larger
            return memoryview(self._large)[self._filled :]
        if self._staging is None:
            self._staging = _spare.pop() if _spare else bytearray(STAGING_BYTES)
        elif self._end == STAGING_BYTES:
            size = self._end - self._start
            self._staging[:size] = self._staging[self._start : self._end]
            self._start, self._end = 0, size
        return memoryview(self._staging)[self._end :]

    def received(self, count: int) -> Iterator[Buffer]:
        """Accept `count` bytes that were written to `free()`; yield the complete frames. Raises FormatError."""
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
        """Continue after `blocked`; yield the complete frames. Raises FormatError."""
        self.blocked = False
        if self._large is None:
            yield from self._cut()
        else:
            self._make_room()

    def _make_room(self) -> None:
        """Reserve twice the room for a large frame that fills its own; set `blocked` if that is refused."""
        if self._filled < self._room:
            return
        room = min(self._size, 2 * self._room)
        if self._may_hold(room - self._room):
            self._room = room
        else:
            self.blocked = True

    def _cut(self) -> Iterator[Buffer]:
        staging = self._staging
        while staging is not None and (received := self._end - self._start - _LENGTH_BYTES) >= 0:
            body = self._start + _LENGTH_BYTES
            size = int.from_bytes(staging[self._start : body], "big", signed=True)
            if not 0 <= size <= self.bytes_max:
                raise FormatError(
                    f"a frame of {size} bytes; the limit is {self.bytes_max}. Is this a Kafka client without TLS?",
                    ErrorCode.INVALID_REQUEST,
                )
            if received >= size:
                if not self._may_hold(size):
                    self.blocked = True
                    return
                frame = bytes(staging[body : body + size])
                self._start = body + size
                yield frame
                continue
            if size + _LENGTH_BYTES > STAGING_BYTES:
                room = min(size, 2 * STAGING_BYTES)
                if not self._may_hold(room):
                    self.blocked = True
                    return
                self._large, self._size, self._room = bytearray(room), size, room
                self._large[:received] = staging[body : self._end]
                self._filled = received
                self._start = self._end = 0
            break
        if self._start == self._end:
            self._start = self._end = 0
            self._give_back()

    def _give_back(self) -> None:
        staging, self._staging = self._staging, None
        if staging is not None and len(_spare) < _SPARE_MAX:
            _spare.append(staging)
