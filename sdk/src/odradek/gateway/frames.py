"""A stream of bytes to frames: 4 bytes of length (big endian), then so many bytes.

    staging   [ handed out | received, not yet a frame | free ]     64 KiB, for small frames and the heads of large ones
    large     [ received | still to come ]                         a frame of its own, filled by the socket, uncopied

A small frame is copied out of the staging buffer; a large one is received where it stays. No buffer is made for a large
frame before `may_begin` agrees, so that announcing frames costs a peer more than it costs us.
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
        may_begin: whether a large frame of that size may be received now; where not, `blocked` is set and nothing more
            is cut until `resume`.
    """

    def __init__(self, bytes_max: int, may_begin: Callable[[int], bool]) -> None:
        self.bytes_max = bytes_max
        self.blocked = False
        self._may_begin = may_begin
        self._staging = bytearray(STAGING_BYTES)
        self._start = 0
        self._end = 0
        self._large: bytearray | None = None
        self._filled = 0

    @property
    def reserved_bytes(self) -> int:
        """Of the large frame that is being received."""
        return 0 if self._large is None else len(self._large)

    def free(self) -> memoryview:
        """Where the next bytes go; never empty."""
        if self._large is not None:
            return memoryview(self._large)[self._filled :]
        if self._end == STAGING_BYTES:
            size = self._end - self._start
            self._staging[:size] = self._staging[self._start : self._end]
            self._start, self._end = 0, size
        return memoryview(self._staging)[self._end :]

    def received(self, count: int) -> Iterator[Buffer]:
        """Take in `count` bytes that were put into `free()`; gives the frames that are complete. Raises FormatError."""
        if self._large is not None:
            self._filled += count
            if self._filled == len(self._large):
                frame, self._large = self._large, None
                yield frame
            return
        self._end += count
        yield from self._cut()

    def resume(self) -> Iterator[Buffer]:
        """Go on after `blocked`. Raises FormatError."""
        self.blocked = False
        yield from self._cut()

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
                frame = bytes(self._staging[body : body + size])
                self._start = body + size
                yield frame
                continue
            if size + _LENGTH_BYTES > STAGING_BYTES:
                if not self._may_begin(size):
                    self.blocked = True
                    return
                self._large = bytearray(size)
                self._large[:received] = self._staging[body : self._end]
                self._filled = received
                self._start = self._end = 0
            break
        if self._start == self._end:
            self._start = self._end = 0
