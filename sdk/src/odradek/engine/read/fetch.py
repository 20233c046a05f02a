"""Fetch: heads, index rows, ranged reads; a long poll if there is nothing yet (Kafka's rules, KIP-74).

    at the head of a quiet log       one read of the heads
    in the tail                      the same, and the reads of objects
    below it                         two queries of index rows when cold, none when warm
    in a segment                     one index when cold, one range of the segment

Nothing is ever listed, and the cost does not grow with the lag. Where compaction left nothing between the offset and
the next stretch of a segment, that is read in a second round. Nothing uncommitted is in a log, so isolation levels
agree.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from odradek.engine.catalog.partitions import deleted, resolve_partition
from odradek.engine.catalog.topics import Topics
from odradek.engine.partition.claims import check_leader_epoch
from odradek.engine.partition.head import PartitionHead
from odradek.engine.partition.index import PartitionIndex
from odradek.engine.partition.leader_epochs import EpochHistory, LeaderEpochs
from odradek.engine.partition.shared_head import HeadImage, view_of
from odradek.engine.read.intact import check_stored, read_intact
from odradek.engine.read.log_reader import LogReader, Piece, PieceReader, patched
from odradek.engine.read.looks import Looks
from odradek.engine.read.read_ahead import ReadAhead, Served
from odradek.engine.read.segment_reader import UNBOUNDED
from odradek.engine.read.uploads import oldest_first
from odradek.engine.tools import Tools
from odradek.errors import ErrorCode, FormatError, KafkaError, ObjectMissing, StoreUnavailable, UnknownVersion
from odradek.format.segment import select_batches
from odradek.model.log import Buffer, FetchPartition, FetchResult
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId

_store_busy = partial(KafkaError, ErrorCode.KAFKA_STORAGE_ERROR, "the store did not answer: try again")
_replaced = partial(KafkaError, ErrorCode.KAFKA_STORAGE_ERROR, "the objects of the log were replaced: try again")
_REPLANS = 3
_LEAST_WAIT_S = 0.001
_PLANS_AT_ONCE = 32  # partitions of one request whose rows are looked up at the same time
_SHARES_MAX = 2  # shares of a response that a partition gets of uploads, if they are the oldest


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A partition of the request that exists."""

    index: int
    request: FetchPartition
    topic: Topic
    partition: PartitionId
    offset: int  # where to read: the request's, or the end of a gap that it fell into


@dataclass(frozen=True, slots=True)
class _Planned:
    """The planned read of a partition."""

    wanted: _Wanted
    head: PartitionHead
    pieces: list[Piece]
    history: EpochHistory | None  # needed for batches from before the present leader epoch
    limit: int  # bytes to answer at most
    is_first: bool  # the first batch is answered however large

    @property
    def bytes_max(self) -> int:
        """The maximum size of its response: a segment's stretch is cut to the limit when it is read."""
        size = sum(piece.length for piece in self.pieces)
        return size if self.is_first else min(size, self.limit)

    def behind_another(self) -> _Planned:
        """The plan, where another partition has the privilege of the first batch."""
        pieces = self.pieces if self.limit > 0 and _fits(self.pieces, self.limit) else []
        return replace(self, pieces=pieces, is_first=False)

    def epoch_of(self, piece: Piece) -> int:
        """The leader epoch under which the piece's batch was written; a batch is never of two."""
        if self.history is None or piece.base_offset >= self.head.epoch_start:
            return self.head.leader_epoch
        return self.history.at(piece.base_offset)


class Fetcher:
    """Fetches from any partition; keeps only index rows."""

    def __init__(
        self,
        tools: Tools,
        index: PartitionIndex,
        reader: LogReader,
        pieces: PieceReader,
        topics: Topics,
        epochs: LeaderEpochs,
        looks: Looks,
    ) -> None:
        self._ahead = ReadAhead(pieces.ahead, self._following, pieces.ranges_ahead)
        self._epochs = epochs
        self._index = index
        self._reader = reader
        self._pieces = pieces
        self._topics = topics
        self._looks = looks
        self._damages = tools.damages
        self._objects = tools.objects
        self._clock = tools.clock
        self._backoff = tools.backoff(first_s=0.02, max_s=0.1)

    async def fetch(
        self, partitions: Sequence[FetchPartition], *, max_wait_ms: int, min_bytes: int, max_bytes: int
    ) -> list[FetchResult]:
        """Read; results in the order of the request. See Engine.fetch."""
        results: list[FetchResult | None] = [None] * len(partitions)
        wanted = []
        for i, request in enumerate(partitions):
            try:
                wanted.append(await self._resolve(i, request))
            except KafkaError as error:
                results[i] = _failed(request, error)
        failed_early = len(wanted) < len(partitions)
        for result in await self._poll(wanted, 0 if failed_early else max_wait_ms, min_bytes, max_bytes):
            results[result[0].index] = result[1]
        return [result for result in results if result is not None]

    async def _resolve(self, index: int, request: FetchPartition) -> _Wanted:
        topic, partition = await resolve_partition(self._topics, request.topic, request.partition, request.topic_id)
        return _Wanted(index, request, topic, partition, request.offset)

    async def _poll(
        self, wanted: Sequence[_Wanted], max_wait_ms: int, min_bytes: int, max_bytes: int
    ) -> list[tuple[_Wanted, FetchResult]]:
        """Look until there is enough, something is wrong, or the time is over; then read."""
        deadline_s = self._clock.monotonic() + max_wait_ms / 1000
        heads: Mapping[PartitionId, PartitionHead] | None = None
        while True:
            planned, failed = await self._plan(wanted, max_bytes, heads)
            for plan in planned:
                self._looks.saw(plan.wanted.partition, plan.head.next_offset)
            size = sum(piece.length for plan in planned for piece in plan.pieces)
            if failed or size >= min_bytes or not wanted or any(map(_has_more, planned)):
                break
            if deadline_s - self._clock.monotonic() < _LEAST_WAIT_S:
                break
            seen = {plan.wanted.partition: plan.head for plan in planned}
            images = await self._looks.wait({place: head.next_offset for place, head in seen.items()}, deadline_s)
            if images is None:
                break
            heads = _newest(seen, images) if images else None
        self._ahead.served(
            [Served(each.wanted.partition, each.head, each.wanted.offset, each.pieces) for each in planned]
        )
        return failed + await self._read(planned)

    async def _following(self, partition: PartitionId, head: PartitionHead, offset: int, size: int) -> list[Piece]:
        """About so many bytes from an offset on, or to where the next query would begin. Raises as LogReader.pieces."""
        return await self._reader.pieces(partition, head, offset, max_bytes=size) if offset < head.next_offset else []

    async def _plan(
        self,
        wanted: Sequence[_Wanted],
        max_bytes: int,
        known: Mapping[PartitionId, PartitionHead] | None = None,
        *,
        is_first: bool = True,
    ) -> tuple[list[_Planned], list[tuple[_Wanted, FetchResult]]]:
        """Choose pieces within the limits: the request's, each partition's; at least one piece in all.

        Args:
            known: the heads; None: they are read.
            is_first: false where others have been answered already, so that nothing may go past its limit.
        """
        heads: Sequence[PartitionHead | None]
        try:
            if known is not None:
                heads = [known[want.partition] for want in wanted]
            else:
                heads = await self._index.read_heads([each.partition for each in wanted], whole=False) if wanted else []
        except StoreUnavailable:
            return [], [(want, _failed(want.request, _store_busy())) for want in wanted]
        except FormatError as error:
            if len(wanted) == 1:
                return [], [(wanted[0], self._damaged(wanted[0], wanted[0].offset, error))]
            return await self._plan_apart(wanted, max_bytes)
        heads = await self._whole_where_behind(wanted, heads)
        behind = sum(
            head is not None and head.next_offset > each.offset for each, head in zip(wanted, heads, strict=True)
        )
        upload_bytes = _SHARES_MAX * max_bytes // max(1, behind)
        at_once = asyncio.Semaphore(_PLANS_AT_ONCE)

        async def plan_one(want: _Wanted, head: PartitionHead | None) -> _Planned | FetchResult:
            limit = min(want.request.max_bytes, max_bytes)
            return await self._plan_one(want, head, limit, is_first=is_first, upload_bytes=upload_bytes)

        async def look_up(want: _Wanted, head: PartitionHead | None) -> _Planned | FetchResult:
            async with at_once:
                return await plan_one(want, head)

        # What the head's own tail has is planned without the store, and so without a task.
        below = [i for i, head in enumerate(heads) if not _is_in_tail(wanted[i], head)]
        looked_up = dict(zip(below, await asyncio.gather(*(look_up(wanted[i], heads[i]) for i in below)), strict=True))
        plans = [looked_up[i] if i in looked_up else await plan_one(wanted[i], heads[i]) for i in range(len(wanted))]
        planned: list[_Planned] = []
        failed: list[tuple[_Wanted, FetchResult]] = []
        for want, plan in zip(wanted, plans, strict=True):
            if isinstance(plan, FetchResult):
                failed.append((want, plan))
                continue
            planned.append(plan if is_first else plan.behind_another())
            is_first = is_first and not plan.pieces
        return await self._share(planned, failed, max_bytes)

    async def _plan_apart(
        self, wanted: Sequence[_Wanted], max_bytes: int
    ) -> tuple[list[_Planned], list[tuple[_Wanted, FetchResult]]]:
        """Plan the others without the partitions whose heads are damaged."""
        checked = await asyncio.gather(*(self._head_damage(want) for want in wanted))
        failed = [
            (want, self._damaged(want, want.offset, damage))
            for want, damage in zip(wanted, checked, strict=True)
            if damage is not None
        ]
        intact = [want for want, damage in zip(wanted, checked, strict=True) if damage is None]
        if not failed:  # the head was written meanwhile
            return [], [(want, _failed(want.request, _store_busy())) for want in wanted]
        planned, failed_too = await self._plan(intact, max_bytes)
        return planned, failed + failed_too

    async def _head_damage(self, want: _Wanted) -> FormatError | None:
        try:
            await self._index.read_heads([want.partition], whole=False)
        except FormatError as damage:
            return damage
        except StoreUnavailable:
            pass  # the plan of those that are left says so
        return None

    def _damaged(self, want: _Wanted, offset: int, damage: Exception, head: PartitionHead | None = None) -> FetchResult:
        """The response at a damaged offset. A newer release's data is not damaged."""
        if isinstance(damage, UnknownVersion):
            return _failed(want.request, KafkaError(damage.code, str(damage)), head)
        return _failed(want.request, self._damages.note(want.topic.name, want.partition, offset, damage), head)

    async def _whole_where_behind(
        self, wanted: Sequence[_Wanted], heads: Sequence[PartitionHead | None]
    ) -> list[PartitionHead | None]:
        """The heads, with their pages where a read begins below the tail: once for all partitions of a head."""
        found = list(heads)
        behind = [i for i, head in enumerate(heads) if head is not None and _lacks_pages(wanted[i], head)]
        if behind:
            try:
                whole = await self._index.read_heads([wanted[i].partition for i in behind])
            except (StoreUnavailable, FormatError):
                return found  # each by itself, so that a damaged head fails its own partitions
            for i, head in zip(behind, whole, strict=True):
                found[i] = head
        return found

    async def _share(
        self, planned: Sequence[_Planned], failed: list[tuple[_Wanted, FetchResult]], max_bytes: int
    ) -> tuple[list[_Planned], list[tuple[_Wanted, FetchResult]]]:
        """Divide the response among the planned reads, each of which may fill it by itself.

        What is in uploads comes first, the oldest of them first (uploads.py), but no more than is due to so many
        partitions, or half; segments share the rest in the order of the request: each is a partition's own, and the
        more of it is read at once, the better.
        """
        uploads = [plan for plan in planned if plan.pieces and not plan.pieces[0].is_segment]
        segments = sum(bool(plan.pieces) for plan in planned) - len(uploads)
        room = max_bytes if not segments else max(max_bytes // 2, max_bytes * len(uploads) // (len(uploads) + segments))
        counts = oldest_first([plan.pieces for plan in uploads], room, is_first=any(plan.is_first for plan in uploads))
        kept = {id(plan): plan.pieces[:count] for plan, count in zip(uploads, counts, strict=True)}
        left = max_bytes - sum(piece.length for pieces in kept.values() for piece in pieces)
        shared: list[_Planned] = []
        for plan in planned:
            pieces = kept.get(id(plan))
            if pieces is not None:
                shared.append(_Planned(plan.wanted, plan.head, pieces, plan.history, plan.limit, plan.is_first))
                continue
            again: _Planned | FetchResult = plan
            if plan.pieces and left < plan.limit:
                again = await self._plan_one(plan.wanted, plan.head, left, is_first=plan.is_first)
            if isinstance(again, FetchResult):
                failed.append((plan.wanted, again))
                continue
            shared.append(again)
            if again.pieces:
                left -= again.bytes_max
        return shared, failed

    async def _plan_one(
        self,
        want: _Wanted,
        head: PartitionHead | None,
        limit: int,
        *,
        is_first: bool,
        upload_bytes: int = UNBOUNDED,
    ) -> _Planned | FetchResult:
        """Plan the read of one partition, by this head or a newer one, or return why nothing can be read."""
        damage: Exception | None = None
        for _ in range(_REPLANS):
            if head is None:
                return _failed(want.request, deleted(self._topics, want.topic))
            try:
                check_leader_epoch(want.request.current_leader_epoch, head)
                if _lacks_pages(want, head):
                    head = await self._index.read_head(want.partition)
                    if head is None:
                        return _failed(want.request, deleted(self._topics, want.topic))
                pieces = await self._choose(want, head, limit, is_first=is_first, upload_bytes=upload_bytes)
                is_older = any(not p.is_segment and p.base_offset < head.epoch_start for p in pieces)
                history = await self._epochs.history(want.partition, head) if is_older else None
                return _Planned(want, head, pieces, history, limit, is_first)
            except KafkaError as error:
                return _failed(want.request, error, head)
            except StoreUnavailable:
                return _failed(want.request, _store_busy(), head)
            except FormatError as error:
                return self._damaged(want, want.offset, error, head)
            except ObjectMissing as missing:
                # The index of a segment that was replaced, or a row that retention removed.
                self._reader.forget(want.partition)
                if damage is not None and str(damage) == str(missing):
                    return self._damaged(want, want.offset, missing, head)
                damage = missing
            try:
                head = await self._index.read_head(want.partition)
            except StoreUnavailable:
                return _failed(want.request, _store_busy())
            except FormatError as error:
                return self._damaged(want, want.offset, error)
        return _failed(want.request, _replaced(), head)

    async def _choose(
        self, want: _Wanted, head: PartitionHead, limit: int, *, is_first: bool, upload_bytes: int
    ) -> list[Piece]:
        """Raises KafkaError(OFFSET_OUT_OF_RANGE), and as LogReader.pieces."""
        if not head.log_start_offset <= want.offset <= head.next_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {want.offset} is outside [{head.log_start_offset}, {head.next_offset}]",
            )
        if want.offset == head.next_offset or (limit <= 0 and not is_first):
            return []
        pieces = await self._reader.pieces(
            want.partition, head, want.offset, max_bytes=limit, upload_bytes=min(limit, upload_bytes)
        )
        pieces = _up_to(pieces, want.request.end_offset)
        return pieces if is_first or _fits(pieces, limit) else []

    async def _read(self, planned: Sequence[_Planned]) -> list[tuple[_Wanted, FetchResult]]:
        try:
            data = await self._pieces.read([piece for plan in planned for piece in plan.pieces])
        except (ObjectMissing, StoreUnavailable, FormatError):
            # One partition must not fail the others: each by itself.
            return list(await asyncio.gather(*(self._read_one(plan) for plan in planned)))
        results = []
        at = 0
        for plan in planned:
            found = data[at : at + len(plan.pieces)]
            at += len(plan.pieces)
            results.append(await self._read_one(plan, found))
        return results

    async def _read_one(self, plan: _Planned, data: Sequence[memoryview] | None = None) -> tuple[_Wanted, FetchResult]:
        """Read one partition; plan again if a merge replaced the planned objects, or after a gap."""
        want = plan.wanted
        error = _store_busy()
        missed: Sequence[Piece] = ()  # the pieces of the plan before, one of which was missing
        for attempt in range(_REPLANS):
            try:
                data = await self._pieces.read(plan.pieces) if data is None else data
                for piece, stored in zip(plan.pieces, data, strict=True):
                    check_stored(piece, stored, want.offset)
                if not _is_gap(plan, data):
                    return want, _result(plan, data)
                want = replace(want, offset=plan.pieces[-1].end_offset)
                error = _replaced()
            except ObjectMissing:
                if any(piece in missed for piece in plan.pieces):
                    return want, await self._before_damage(plan, missed)
                missed = plan.pieces
                self._reader.forget(want.partition)
                error = _replaced()
            except StoreUnavailable:
                error = _store_busy()
                await self._backoff.pause(attempt)
                continue
            except FormatError:
                return want, await self._before_damage(plan, plan.pieces)
            data = None
            # No more than before: the others have been promised the rest, and the log may have grown since.
            again, failed = await self._plan([want], plan.bytes_max, is_first=plan.is_first)
            if failed:
                return failed[0]
            plan = again[0]
        return want, _failed(want.request, error, plan.head)

    async def _before_damage(self, plan: _Planned, missed: Sequence[Piece]) -> FetchResult:
        """The intact records before a damage; its error if there are none.

        Args:
            missed: what cannot be read of these is damaged. Any other piece may have been replaced just now.
        """
        want = plan.wanted
        try:
            intact = await read_intact(self._pieces, self._objects, plan.pieces, want.offset)
        except StoreUnavailable:
            return _failed(want.request, _store_busy(), plan.head)
        result = _result(replace(plan, pieces=intact.pieces), intact.data)
        damage = intact.damage
        if damage is None or result.records:
            return result
        if damage.piece not in missed:
            return _failed(want.request, _replaced(), plan.head)
        return self._damaged(want, max(want.offset, damage.offset), damage.reason, plan.head)


def _lacks_pages(want: _Wanted, head: PartitionHead) -> bool:
    """Return True if a read begins below a tail whose pages have not been read."""
    return want.offset < head.tail_base_offset and not head.is_whole


def _is_in_tail(want: _Wanted, head: PartitionHead | None) -> bool:
    """Return True if the head itself has all that is to be read, of its present leader epoch."""
    return head is not None and want.offset >= max(head.tail_base_offset, head.epoch_start)


def _fits(pieces: Sequence[Piece], limit: int) -> bool:
    """Return True unless the first batch is larger than the limit.

    Only the first partition that has anything may go past it, so that a large batch is readable at all. Of a segment it
    shows when it is read.
    """
    return not pieces or pieces[0].is_segment or pieces[0].length <= limit


def _up_to(pieces: list[Piece], end_offset: int | None) -> list[Piece]:
    """The pieces up to the one that reaches an offset."""
    if end_offset is None:
        return pieces
    return [piece for i, piece in enumerate(pieces) if i == 0 or pieces[i - 1].end_offset < end_offset]


def _newest(
    seen: Mapping[PartitionId, PartitionHead], images: Mapping[PartitionId, HeadImage]
) -> dict[PartitionId, PartitionHead]:
    """The heads that a poll saw, or what a later look saw of them."""
    heads = dict(seen)
    for place, head in seen.items():
        image = images.get(place.head_id)
        if image is not None and image.appended_bytes > head.appended_bytes:
            heads[place] = view_of(image, place)
    return heads


def _has_more(plan: _Planned) -> bool:
    """Return True if more exists than was planned, so that there is no need to wait."""
    return bool(plan.pieces) and plan.pieces[-1].end_offset < plan.head.next_offset


def _is_gap(plan: _Planned, data: Sequence[memoryview]) -> bool:
    """Return True if nothing that was read reaches the offset: compaction left nothing between both."""
    if not plan.pieces or not all(piece.is_segment for piece in plan.pieces):
        return False
    return not any(len(select_batches(stored, plan.wanted.offset, 0)[0]) for stored in data)


def _result(plan: _Planned, data: Sequence[memoryview]) -> FetchResult:
    records: list[Buffer] = []
    for piece, stored in zip(plan.pieces, data, strict=True):
        if not piece.is_segment:
            records += patched(piece, stored, plan.epoch_of(piece))
            continue
        batches, _ = select_batches(stored, plan.wanted.offset, plan.limit)
        if len(batches) and (len(batches) <= plan.limit or plan.is_first):
            records.append(batches)
    return FetchResult(
        plan.wanted.request.topic,
        plan.wanted.request.partition,
        high_watermark=plan.head.next_offset,
        log_start_offset=plan.head.log_start_offset,
        records=records,
        topic_id=plan.wanted.topic.topic_id,
    )


def _failed(request: FetchPartition, error: KafkaError, head: PartitionHead | None = None) -> FetchResult:
    return FetchResult(
        request.topic,
        request.partition,
        error=error.code,
        message=error.message,
        topic_id=request.topic_id,
        high_watermark=head.next_offset if head else -1,
        log_start_offset=head.log_start_offset if head else -1,
        current_leader_id=head.leader_id if head else -1,
        current_leader_epoch=head.leader_epoch if head else -1,
    )
