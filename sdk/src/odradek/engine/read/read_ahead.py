"""Reading ahead: what a consumer that reads a log from an old offset will ask for next is on its way before it asks.

A fetch of a megabyte takes one ranged GET, some thirty milliseconds, whatever is done in this process; so a consumer
that catches up would get some twenty megabytes a second of a partition. Here a process that serves it fetch after fetch
begins the next reads while the client works through the last ones.

    stream   a consumer's reading of one partition, known by its offsets: the second fetch that goes on where one ended
             shows it. It has a window, the bytes that are asked for ahead of it, which doubles at each fetch.
    block    a range of an object that was read ahead, or is being read. What is in an object never changes, so a block
             is as good as the store; where it cannot be had, the fetch reads for itself.

Blocks are as large as a GET should be, and fetches take slices of them: reading ahead makes fewer requests, not more,
but for what a consumer that turns away has no use for, at most one window. All blocks together keep to
`read_ahead_bytes`. Those that were used longest ago go first, but not before they had time to be used: where there are
more consumers than that serves, some read for themselves, and none of them in vain. A function, which is frozen between
two requests and serves a consumer by another process each time, reads nothing ahead.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from odradek.engine.partition.head import PartitionHead
from odradek.engine.read.segment_reader import Piece
from odradek.errors import FormatError, KafkaError, ObjectMissing, StoreUnavailable
from odradek.model.log import Buffer
from odradek.model.topic_partition import PartitionId
from odradek.ports.clock import Clock

BLOCK_BYTES: Final = 4 * 1024 * 1024  # of one GET: its first byte takes as long as two megabytes of it
_WINDOW_SHARE: Final = 2  # a stream's window is at most this part of what may be kept
_STREAMS_MAX: Final = 256
_STREAMS_PER_PARTITION: Final = 8
_PLANS_AT_ONCE: Final = 32
_UNREAD_S: Final = 10.0  # a block that nobody has asked for since then is not waited for any more
FAILURES = (ObjectMissing, StoreUnavailable, FormatError, KafkaError)

Read = Callable[[str, int, int], Awaitable[Buffer]]  # key, start, length: complete, or raises
Range = tuple[str, int, int]  # key, start, stop
Plan = Callable[[PartitionId, PartitionHead, int, int], Awaitable[list[Piece]]]  # from an offset, about so many bytes


class Blocks:
    """Ranges of objects that were read ahead, within a number of bytes.

    Args:
        bytes_max: of all blocks; 0: none are kept.
        read: reads a range.
        parallelism: blocks that are read at the same time.
        clock: for the age of blocks.
    """

    def __init__(self, bytes_max: int, read: Read, parallelism: int, clock: Clock) -> None:
        self.bytes_max = bytes_max
        self._read = read
        self._clock = clock
        self._slots = asyncio.Semaphore(parallelism)
        self._blocks: OrderedDict[tuple[str, int], _Block] = OrderedDict()  # the one used last at the end
        self._starts: dict[str, list[int]] = {}  # by object, in order
        self._bytes = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, key: str, start: int, stop: int) -> None:
        """Begin to read a range, but for what is kept or on its way of its beginning, and what there is no room for."""
        while start < stop and (held := self._holding(key, start)) is not None:
            start = held.stop
        future, now_s = asyncio.get_running_loop().create_future, self._clock.monotonic()
        for at in range(start, stop, BLOCK_BYTES):
            self._begin(_Block(key, at, min(at + BLOCK_BYTES, stop), future(), now_s))

    async def find(self, key: str, start: int, length: int) -> Buffer | None:
        """Return a range that was read ahead, once it is there; None if any of it was not, or cannot be had."""
        found: list[Buffer] = []
        at, stop = start, start + length
        while at < stop:
            block = self._holding(key, at)
            if block is None:
                return None
            if not block.has_begun:  # it waits for others: whoever needs it is faster alone
                self._drop(block)
                return None
            block.is_used = True
            self._blocks.move_to_end((block.key, block.start))
            # Shielded: a request that is cancelled does not take the block from others.
            data = await asyncio.shield(block.data)
            if data is None:
                return None
            found.append(memoryview(data)[at - block.start : stop - block.start])
            at = block.stop
        return found[0] if len(found) == 1 else b"".join(found)

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Let it run beside the requests."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _begin(self, block: _Block) -> None:
        place = block.key, block.start
        if block.size > self.bytes_max or place in self._blocks:
            return
        while self._bytes + block.size > self.bytes_max:
            oldest = next(iter(self._blocks.values()))
            if not oldest.is_used and block.begun_s - oldest.begun_s < _UNREAD_S:
                return
            self._drop(oldest)
        self._blocks[place] = block
        insort(self._starts.setdefault(block.key, []), block.start)
        self._bytes += block.size
        self.run(self._fill(block))

    async def _fill(self, block: _Block) -> None:
        data: Buffer | None = None
        try:
            async with self._slots:
                block.has_begun = True
                if self._is_held(block):
                    data = await self._read(block.key, block.start, block.size)
        except FAILURES:
            pass  # whoever needs it reads it, and says what is wrong
        finally:
            if data is None:
                self._drop(block)
            block.data.set_result(data)

    def _holding(self, key: str, at: int) -> _Block | None:
        starts = self._starts.get(key)
        index = bisect_right(starts, at) - 1 if starts else -1
        if starts is None or index < 0:
            return None
        block = self._blocks[key, starts[index]]
        return block if at < block.stop else None

    def _is_held(self, block: _Block) -> bool:
        return self._blocks.get((block.key, block.start)) is block

    def _drop(self, block: _Block) -> None:
        if not self._is_held(block):
            return
        del self._blocks[block.key, block.start]
        starts = self._starts[block.key]
        starts.remove(block.start)
        if not starts:
            del self._starts[block.key]
        self._bytes -= block.size


@dataclass(slots=True)
class _Block:
    """The bytes [start, stop) of an object, or None where they could not be read."""

    key: str
    start: int
    stop: int
    data: asyncio.Future[Buffer | None]
    begun_s: float
    has_begun: bool = False  # to be read
    is_used: bool = False

    @property
    def size(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Served:
    """What a fetch is answered with, of one partition."""

    partition: PartitionId
    head: PartitionHead
    offset: int
    pieces: Sequence[Piece]


@dataclass(slots=True)
class _Stream:
    """A consumer's reading of one partition.

    Attributes:
        from_offset, to_offset: its last fetch began at the one and was planned to the other, exclusive. The next one
            begins between both: a response may end earlier than its plan.
        ahead_offset: what is before it has been read ahead.
        ahead_bytes: of the stretch from `to_offset` to `ahead_offset`.
        window: bytes to be ahead.
    """

    from_offset: int
    to_offset: int
    ahead_offset: int = 0
    ahead_bytes: int = 0
    window: int = 0
    is_planning: bool = False

    @property
    def missing(self) -> int:
        """Bytes to read ahead."""
        return self.window - self.ahead_bytes

    def go_on(self, served: Served, window_max: int) -> bool:
        """Note its next fetch; returns True if more is to be read ahead now."""
        size = sum(piece.length for piece in served.pieces)
        self.from_offset, self.to_offset = served.offset, served.pieces[-1].end_offset
        self.ahead_bytes = max(0, self.ahead_bytes - size) if self.to_offset < self.ahead_offset else 0
        self.ahead_offset = max(self.ahead_offset, self.to_offset)
        # Half of what the next fetch takes would be read in vain.
        self.window = min(2 * max(self.window, size), window_max) if size <= window_max else 0
        return 2 * self.ahead_bytes <= self.window


class ReadAhead:
    """Knows the streams of a process, and reads for them what comes next.

    Args:
        blocks: where it goes.
        plan: the pieces of a partition from an offset on, about so many bytes. Raises as LogReader.pieces.
        ranges: what to read for pieces: key, start, stop.
    """

    def __init__(self, blocks: Blocks, plan: Plan, ranges: Callable[[Sequence[Piece]], Iterable[Range]]) -> None:
        self._blocks = blocks
        self._plan = plan
        self._ranges = ranges
        self._streams: OrderedDict[PartitionId, list[_Stream]] = OrderedDict()

    def served(self, answers: Sequence[Served]) -> None:
        """Note the answers of a fetch; begin to read what follows.

        Its partitions are read ahead together: what they have in one upload is one range.
        """
        if not self._blocks.bytes_max:
            return
        window_max = self._blocks.bytes_max // _WINDOW_SHARE // max(1, len(answers))
        streams = [(each, self._stream(each)) for each in answers if each.pieces]
        follow = [(each, stream) for each, stream in streams if stream is not None]
        due = [stream.go_on(each, window_max) for each, stream in follow]
        if not any(due):
            return
        ready = [
            (each, stream)
            for each, stream in follow
            if not stream.is_planning and stream.ahead_offset < each.head.next_offset and stream.missing > 0
        ]
        if ready:
            for _, stream in ready:
                stream.is_planning = True
            self._blocks.run(self._go_ahead(ready))

    def _stream(self, served: Served) -> _Stream | None:
        """The stream whose next fetch this is; None for the first one of a stream."""
        streams = self._streams.setdefault(served.partition, [])
        self._streams.move_to_end(served.partition)
        for each in streams:
            if each.from_offset < served.offset <= each.to_offset:
                return each
        if all(each.from_offset != served.offset for each in streams):  # else it is the same fetch once more
            streams.append(_Stream(served.offset, served.pieces[-1].end_offset))
            del streams[:-_STREAMS_PER_PARTITION]
        while len(self._streams) > _STREAMS_MAX:
            self._streams.popitem(last=False)
        return None

    async def _go_ahead(self, ready: Sequence[tuple[Served, _Stream]]) -> None:
        """Begin the reads of what follows, up to the windows of the streams."""
        at_once = asyncio.Semaphore(_PLANS_AT_ONCE)

        async def pieces_of(served: Served, stream: _Stream) -> list[Piece]:
            try:
                async with at_once:
                    pieces = await self._plan(served.partition, served.head, stream.ahead_offset, stream.missing)
            except FAILURES:
                return []  # the fetch that comes there says what is wrong
            finally:
                stream.is_planning = False
            if pieces:
                stream.ahead_offset = max(stream.ahead_offset, pieces[-1].end_offset)
                stream.ahead_bytes += sum(piece.length for piece in pieces)
            return pieces

        found = await asyncio.gather(*(pieces_of(served, stream) for served, stream in ready))
        for key, start, stop in self._ranges([piece for pieces in found for piece in pieces]):
            self._blocks.begin(key, start, stop)
