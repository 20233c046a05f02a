"""Looks at heads for the long polls of one process: one read a head and look, however many wait there.

    a poll waits           for its partitions to have another end than the one that it saw, or for its time to be over
    a look                 one read of all heads that are due; who waits for what has grown goes on with what was read
    an append here         is such a look, and costs nothing (Marks.on_append): a gateway sees most appends by itself
    pauses                 grow from poll_interval_ms to poll_interval_ms_max, by how often the partitions grow
                           (arrivals.py); a new poll begins with a short one

No poll is answered from an older read than its own first one: ends never fall, so a larger one is news, and an equal
one is none. One task looks for all; it exists as long as somebody waits.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

from odradek.engine.partition.index import PartitionIndex
from odradek.engine.partition.shared_head import HeadImage, view_of
from odradek.engine.read.arrivals import Arrivals
from odradek.errors import FormatError, StoreError
from odradek.model.topic_partition import PartitionId
from odradek.ports.clock import Clock
from odradek.settings import Settings

_GROWTH = 1.5  # of a pause, from look to look
_SLACK_S = 0.001  # what is due so soon is due


@dataclass(eq=False, slots=True)
class _Poll:
    """One long poll that waits.

    Attributes:
        news: True: a log has grown, or it must look for itself; False: its time is over.
    """

    partitions: Sequence[PartitionId]
    news: asyncio.Future[bool]


@dataclass(slots=True)
class _Watched:
    """A head at which polls wait."""

    pause_s: float
    due_s: float
    polls: dict[PartitionId, dict[_Poll, None]] = field(default_factory=dict)
    ends: dict[PartitionId, int] = field(default_factory=dict)  # the largest that was seen
    image: HeadImage | None = None  # of the newest look
    must_be_read: bool = False  # the newest look has found no head, or failed


class Looks:
    """The looks of one process."""

    def __init__(self, index: PartitionIndex, clock: Clock, settings: Settings) -> None:
        self._index = index
        self._clock = clock
        self._pause_s = settings.poll_interval_ms / 1000
        self._pause_max_s = settings.poll_interval_ms_max / 1000
        self._arrivals = Arrivals()
        self._watched: dict[PartitionId, _Watched] = {}
        self._due: list[tuple[float, int, PartitionId]] = []  # heaps; what has changed since is left in them
        self._deadlines: list[tuple[float, int, _Poll]] = []
        self._numbers = count()
        self._looking: asyncio.Task[None] | None = None

    def saw(self, partition: PartitionId, end_offset: int) -> None:
        """Note the end offset that a poll saw by its own read."""
        self._arrivals.saw(partition, end_offset, self._clock.monotonic())

    async def wait(self, ends: Mapping[PartitionId, int], deadline_s: float) -> dict[PartitionId, HeadImage] | None:
        """Wait until one of these logs is longer; None: the time is over.

        Args:
            ends: the end offsets that were seen.
            deadline_s: by the engine's monotonic clock.

        Returns the heads of which something newer may be known. None of them: read them again, since a look has failed
        or a head is gone.
        """
        left_s = deadline_s - self._clock.monotonic()
        if left_s <= self._pause_s:
            await self._clock.sleep(left_s)
            return {}
        poll = _Poll(list(ends), asyncio.get_running_loop().create_future())
        heapq.heappush(self._deadlines, (deadline_s, next(self._numbers), poll))
        for partition, end in ends.items():
            self._watch(poll, partition, end)
        try:
            if self._looking is None:
                self._looking = asyncio.get_running_loop().create_task(self._look_until_nobody_waits())
                self._looking.add_done_callback(self._ended)
            if not await poll.news:
                return None
            known = {each.head_id: self._watched[each.head_id] for each in poll.partitions}
            if any(watched.must_be_read for watched in known.values()):
                return {}
            return {head_id: watched.image for head_id, watched in known.items() if watched.image is not None}
        finally:
            self._leave(poll)

    def appended(self, head_id: PartitionId, image: HeadImage) -> None:
        """Note what a head says after an append of this process."""
        watched = self._watched.get(head_id)
        if watched is not None and (watched.image is None or watched.image.appended_bytes <= image.appended_bytes):
            self._tell(watched, image)

    # --- who waits ------------------------------------------------------------------------------------------------

    def _watch(self, poll: _Poll, partition: PartitionId, end: int) -> None:
        head_id, now_s = partition.head_id, self._clock.monotonic()
        pause_s = min(max(self._pause_s, self._arrivals.pause_s([partition], now_s)), self._pause_max_s)
        watched = self._watched.get(head_id)
        if watched is None:
            watched = self._watched[head_id] = _Watched(pause_s, now_s + pause_s)
            self._schedule(head_id, watched)
        elif now_s + pause_s < watched.due_s:
            watched.pause_s, watched.due_s = pause_s, now_s + pause_s
            self._schedule(head_id, watched)
        if end > watched.ends.get(partition, end):  # the others wait for what this poll has seen
            watched.must_be_read = True
            _wake(watched, [partition])
        watched.polls.setdefault(partition, {})[poll] = None
        watched.ends[partition] = max(end, watched.ends.get(partition, 0))
        if watched.image is not None and view_of(watched.image, partition).next_offset > end:
            _go_on(poll, is_news=True)

    def _leave(self, poll: _Poll) -> None:
        for partition in poll.partitions:
            watched = self._watched[partition.head_id]
            here = watched.polls.get(partition, {})
            here.pop(poll, None)
            if not here:
                watched.polls.pop(partition, None)
                watched.ends.pop(partition, None)
            if not watched.polls:
                del self._watched[partition.head_id]
        if not self._watched and self._looking is not None:
            self._looking.cancel()
            self._looking = None
            self._due.clear()
            self._deadlines.clear()

    def _schedule(self, head_id: PartitionId, watched: _Watched) -> None:
        heapq.heappush(self._due, (watched.due_s, next(self._numbers), head_id))

    def _ended(self, looking: asyncio.Task[None]) -> None:
        """Nobody waits any more; or something has failed that no look handles, which all who wait must hear of."""
        error = None if looking.cancelled() else looking.exception()
        if error is None or looking is not self._looking:
            return
        self._looking = None
        for poll in {poll for watched in self._watched.values() for polls in watched.polls.values() for poll in polls}:
            if not poll.news.done():
                poll.news.set_exception(error)

    # --- the looks ------------------------------------------------------------------------------------------------

    async def _look_until_nobody_waits(self) -> None:
        while True:
            now_s = self._clock.monotonic()
            due = self._take_due(now_s)
            if due:
                await self._look(due, now_s)
                now_s = self._clock.monotonic()
            while self._deadlines and self._deadlines[0][0] <= now_s + _SLACK_S:
                _go_on(heapq.heappop(self._deadlines)[2], is_news=False)
            next_s = min((heap[0][0] for heap in (self._due, self._deadlines) if heap), default=now_s)
            # Not longer than the shortest pause: what came meanwhile may be due earlier.
            await self._clock.sleep(min(max(0.0, next_s - now_s), self._pause_s))

    async def _look(self, head_ids: Sequence[PartitionId], now_s: float) -> None:
        images: Mapping[PartitionId, HeadImage | None] = {}
        with suppress(StoreError, FormatError):
            images = await self._index.read_images(head_ids)
        for head_id in head_ids:
            watched = self._watched.get(head_id)
            if watched is None:
                continue
            image = images.get(head_id)
            if image is None:
                watched.must_be_read = True
                _wake(watched, watched.polls)
            elif watched.image is None or watched.image.appended_bytes <= image.appended_bytes:
                self._tell(watched, image)
            expected_s = self._arrivals.pause_s(watched.polls, now_s)
            watched.pause_s = min(max(watched.pause_s * _GROWTH, expected_s), self._pause_max_s)
            watched.due_s = now_s + watched.pause_s
            self._schedule(head_id, watched)

    def _tell(self, watched: _Watched, image: HeadImage) -> None:
        """Let those go on for which there is something new in a head."""
        watched.image, watched.must_be_read = image, False
        now_s = self._clock.monotonic()
        for partition in list(watched.polls):
            end = view_of(image, partition).next_offset
            self._arrivals.saw(partition, end, now_s)
            if end > watched.ends[partition]:
                watched.ends[partition] = end
                _wake(watched, [partition])

    def _take_due(self, now_s: float) -> list[PartitionId]:
        found = []
        while self._due and self._due[0][0] <= now_s + _SLACK_S:
            due_s, _, head_id = heapq.heappop(self._due)
            watched = self._watched.get(head_id)
            if watched is not None and watched.due_s == due_s:
                found.append(head_id)
        return found


def _wake(watched: _Watched, partitions: Iterable[PartitionId]) -> None:
    for partition in partitions:
        for poll in watched.polls[partition]:
            _go_on(poll, is_news=True)


def _go_on(poll: _Poll, *, is_news: bool) -> None:
    if not poll.news.done():
        poll.news.set_result(is_news)
