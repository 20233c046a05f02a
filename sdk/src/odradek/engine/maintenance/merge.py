"""Merge: small WAL pieces become segments, small segments larger ones (merge_decisions.py says which, and when).

    1. look      the newest rows, one query: all that a quiet partition costs
    2. read      the batches of a window, with every CRC checked; all merges of a process hold `merge_bytes_max` at most
                 (partitions that share a head are merged together: their slices of an upload are one read)
    3. upload    the segment
    4. swap      the index rows; the head's merged offset rises with it
    5. delete    the segments that the swap replaced (3 to 5: segment_swap.py, and why each may fail or come late)

and again from 2 until nothing pays. Batches keep their bytes but for base offset and leader epoch, which a log sets,
and under LogAppendTime the timestamp with a new CRC: what a fetch answers before and after is the same.

Only rows below the head's tail base are merged: as long as the tail still has a row's entries, any process may finish
its spill, and needs the row for that.

Delayed operations:

* A delayed spill may write a row again that the swap removed. It is below the merged offset: a ghost, which readers
  skip (partition/index.py) and the next merge removes.
* What cannot be read is set apart, and what is before it merged without it (damaged_rows.py).
* Readers that planned on what step 5 deletes see ObjectMissing and plan again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import TypeVar

from odradek.engine.catalog.topic_configs import TopicConfig
from odradek.engine.maintenance.damaged_rows import DamagedRows, wal_batch
from odradek.engine.maintenance.maintenance import HeldPartition, PartitionLook
from odradek.engine.maintenance.merge_decisions import MergePolicy, choose_window, choose_windows, is_final
from odradek.engine.maintenance.segment_swap import SegmentSwap
from odradek.engine.maintenance.table_segments import TableSegment, as_table
from odradek.engine.partition.head import PartitionHead
from odradek.engine.partition.index import ROWS_REPLACED_MAX, PartitionIndex
from odradek.engine.partition.index_row import IndexRow, is_ghost
from odradek.engine.partition.leader_epochs import LeaderEpochs
from odradek.engine.partition.maintenance_lease import LeaseLost, MaintenanceLeases
from odradek.engine.read.log_reader import Piece, PieceReader, row_pieces
from odradek.engine.read.segment_reader import SegmentIndexes, Wanted
from odradek.engine.tools import Tools
from odradek.errors import FormatError, KafkaError, ObjectMissing, StoreError, StoreUnavailable
from odradek.format.batch_header import check_crc, parse_header
from odradek.format.segment import SegmentBuilder
from odradek.model.log import Buffer

T = TypeVar("T")

_ROWS_PER_PAGE = 128
_SEGMENTS_BACK = 48
_SEGMENTS_PER_ROW_MAX = 64
_JOIN_GAP_BYTES = 1024 * 1024  # what a maintainer reads in the time that costs as much as one request more


class Merger:
    """The upkeep that merges."""

    acts_on_tail = False

    def __init__(
        self,
        tools: Tools,
        index: PartitionIndex,
        pieces: PieceReader,
        epochs: LeaderEpochs,
        leases: MaintenanceLeases,
    ) -> None:
        self._index = index
        self._pieces = pieces
        self._epochs = epochs
        self._swap = SegmentSwap(tools, index, leases)
        self._damage = DamagedRows(tools, index, pieces, epochs, self._swap)
        self._segments = SegmentIndexes(tools.objects, tools.damages)
        self._clock = tools.clock
        self._settings = tools.settings
        self._uses_threads = tools.uses_threads
        self._memory = _Memory(tools.settings.merge_bytes_max)

    async def is_due(self, look: PartitionLook) -> bool:
        """See maintenance.Upkeep."""
        page = list(reversed(await self._index.newest_rows(look.partition, _ROWS_PER_PAGE)))
        rows = [row for row in page if not is_ghost(row, look.head.merged_offset)]
        if len(rows) < len(page) or not _is_all(page):
            return True
        policy = self._policy(look.config)
        return choose_window(_mergeable(rows, look.head), policy, self._clock.now_ms()) is not None

    async def run(self, held: HeldPartition) -> None:
        """Implement maintenance.Upkeep. Also raises OutcomeUnknown: the next pass continues."""
        [failure] = await self.run_all([held])
        if failure is not None:
            raise failure

    async def merge_all(self, held: HeldPartition) -> Exception | None:
        """Merge all spilled rows that are old enough, however few; return what failed."""
        policy = replace(self._policy(held.config), rows_min=1)
        [failure] = await self._run_all([_Merge(held, policy)])
        return failure

    async def run_all(self, held: Sequence[HeldPartition]) -> list[Exception | None]:
        """Implement maintenance.JointUpkeep: partitions that share a head have the same uploads, which are read once.

        They are merged in rounds: a window of each, as many at a time as memory allows.
        """
        return await self._run_all([_Merge(each, self._policy(each.config)) for each in held])

    async def _run_all(self, merges: Sequence[_Merge]) -> list[Exception | None]:
        await asyncio.gather(*(self._guarded(each, self._begin) for each in merges))
        while True:
            at_work = [each for each in merges if each.wants(self._clock.now_ms())]
            windows = choose_windows(
                [(each.rows, each.policy) for each in at_work], self._settings.merge_bytes_max, self._clock.now_ms()
            )
            for each, window in zip(at_work, windows, strict=True):
                each.window = window
            at_work = [each for each in at_work if each.window is not None]
            if not at_work:
                break
            for some in self._in_memory(at_work):
                await self._merge_some(some)
                await asyncio.gather(*(self._pass_damage(each) for each in some))
            await asyncio.gather(*(self._guarded(each, self._go_on) for each in at_work))
        begun = [each for each in merges if each.head is not None and each.failure is None]
        if begun:  # once for the head, whose pages they are
            await self._guarded(begun[0], self._delete_old_pages)
        return [each.failure for each in merges]

    def _policy(self, config: TopicConfig) -> MergePolicy:
        return MergePolicy.of(config, self._settings, ROWS_REPLACED_MAX, self._clock.now_ms())

    async def rewrite(
        self, held: HeldPartition, rows: Sequence[IndexRow], window: tuple[int, int], policy: MergePolicy
    ) -> bool:
        """Make a Parquet file of neighbouring segments of a table topic, whether or not it pays; False: not now.

        Args:
            rows: neighbours; `window` [first, stop) is what is replaced.

        Raises LeaseLost, StoreError, FormatError.
        """
        head = await self._index.read_head(held.partition)
        if head is None:
            return False
        merge = _Merge(held, policy, head, list(rows), window=window, closes=True)
        try:
            for row in merge.window_rows:
                if row.is_columnar:
                    wanted = Wanted(row.base_offset)
                    merge.pieces[row.base_offset] = await self._segments.pieces(held.partition, row, wanted)
            return await self._merge(merge)
        except (ObjectMissing, FormatError) as failure:
            merge.failure = failure
        failure_left = await self._pass_damage(merge)
        if failure_left is not None:
            raise failure_left
        return True

    async def _pass_damage(self, merge: _Merge) -> Exception | None:
        """After a merge that met damage: set it apart, or merge what is before it. The next round goes on.

        Returns the failure of the merge that is left.
        """
        failure = merge.failure
        if merge.tried is None or not isinstance(failure, (ObjectMissing, FormatError)):
            return failure
        first, stop = merge.tried
        merge.failure = None

        async def pass_it(merge: _Merge) -> None:
            assert merge.head is not None
            window = merge.rows[first:stop]
            async with self._memory.hold(sum(row.size_bytes for row in window)):
                found = await self._damage.find(merge.held, window)
                if found is None:
                    raise failure
                at = first + found.row
                row = merge.rows[at]
                if row.is_segment or at == first or merge.rows[at - 1].is_segment:
                    merge.rows[at : at + 1] = await self._damage.set_apart(merge.held, merge.head, row, found.broken)
                    return
            merge.window = first, at
            await self._merge(merge)

        await self._guarded(merge, pass_it)
        return merge.failure

    @staticmethod
    async def _guarded(merge: _Merge, step: Callable[[_Merge], Awaitable[object]]) -> None:
        """One step of a partition's merge; a failure is its own."""
        if merge.failure is None:
            try:
                await step(merge)
            except (LeaseLost, StoreError, FormatError, KafkaError) as error:
                merge.failure = error

    # --- 1. look --------------------------------------------------------------------------------------------------

    async def _begin(self, merge: _Merge) -> None:
        held = merge.held
        page = list(reversed(await self._index.newest_rows(held.partition, _ROWS_PER_PAGE)))
        is_all = _is_all(page)
        are_neighbours = all(after.base_offset == before.end_offset for before, after in pairwise(page))
        if is_all and are_neighbours and choose_window(page, merge.policy, self._clock.now_ms()) is None:
            return
        head = await self._index.read_head(held.partition)
        if head is None:
            return
        ghosts = [row for row in page if is_ghost(row, head.merged_offset)]
        if ghosts:
            await self._remove_ghosts(held, ghosts)
        rows = [row for row in page if row not in ghosts]
        if not is_all:  # a backlog: the oldest spilled rows are elsewhere, and these may be too young
            rows = await self._from_the_oldest(held, head)
        merge.head, merge.rows, merge.is_all = head, _mergeable(rows, head), is_all

    async def _go_on(self, merge: _Merge) -> None:
        """Read more rows of a backlog, once what is known of it has been merged."""
        assert merge.head is not None
        if not merge.is_all and sum(not row.is_segment for row in merge.rows) < merge.policy.rows_max:
            more = await self._index.rows_from(merge.held.partition, merge.rows[-1].end_offset, _ROWS_PER_PAGE)
            merge.rows = [*merge.rows[-2 * _ROWS_PER_PAGE :], *_mergeable(more, merge.head)]
            merge.is_all = not more

    async def _delete_old_pages(self, merge: _Merge) -> None:
        await self._index.delete_old_pages(merge.held.partition)

    async def _from_the_oldest(self, held: HeldPartition, head: PartitionHead) -> list[IndexRow]:
        """The newest segments and the oldest spilled rows."""
        back = []
        if head.merged_offset:
            back = await self._index.rows_down_from(held.partition, head.merged_offset - 1, _SEGMENTS_BACK)
        spilled = await self._index.rows_from(held.partition, head.merged_offset, _ROWS_PER_PAGE)
        return [*(row for row in reversed(back) if row.is_segment), *spilled]

    async def _remove_ghosts(self, held: HeldPartition, ghosts: Sequence[IndexRow]) -> None:
        await self._index.replace_rows(held.lease, ghosts[:ROWS_REPLACED_MAX], [])
        held.report.done["ghosts_removed"] += len(ghosts[:ROWS_REPLACED_MAX])

    # --- 2. to 5. -------------------------------------------------------------------------------------------------

    def _in_memory(self, merges: Sequence[_Merge]) -> list[list[_Merge]]:
        """The merges of a round in parts that fit into memory together; one that alone does not is alone."""
        parts: list[list[_Merge]] = [[]]
        held = 0
        for merge in merges:
            size = merge.window_bytes
            if parts[-1] and held + size > self._settings.merge_bytes_max:
                parts.append([])
                held = 0
            parts[-1].append(merge)
            held += size
        return parts

    async def _merge_some(self, merges: Sequence[_Merge]) -> None:
        """Merge a window of each: what they have of an upload in common is one read."""
        merges = await self._with_entries(merges)
        plans = [(merge, list(_groups(merge))) for merge in merges]
        single = [(merge, groups[0]) for merge, groups in plans if len(groups) == 1]
        pieces = [piece for _, group in single for piece in group.pieces]
        gap_bytes = _JOIN_GAP_BYTES
        if self._pieces.bytes_held(pieces, join_gap_bytes=gap_bytes) > 2 * sum(piece.length for piece in pieces):
            gap_bytes = self._settings.fetch_join_gap_bytes
        found: dict[int, list[memoryview]] = {}
        async with self._memory.hold(self._pieces.bytes_held(pieces, join_gap_bytes=gap_bytes)):
            if len(single) > 1:
                try:
                    data = iter(await self._pieces.read(pieces, join_gap_bytes=gap_bytes))
                    found = {id(merge): [next(data) for _ in group.pieces] for merge, group in single}
                except StoreError:
                    pass  # one of them, it may be: each by itself
            at_once = [merge for merge, _ in single if id(merge) in found]

            async def merge_read(merge: _Merge) -> None:
                await self._merge(merge, found[id(merge)])

            await asyncio.gather(*(self._guarded(merge, merge_read) for merge in at_once))
        for merge in merges:
            if id(merge) not in found:
                await self._guarded(merge, self._merge)

    async def _with_entries(self, merges: Sequence[_Merge]) -> Sequence[_Merge]:
        """Give the windows' rows the entries that they refer to, all at once; return the merges that can go on."""
        rows = [(merge.held.partition, row) for merge in merges for row in merge.window_rows]
        try:
            filled = iter(await self._index.with_entries(rows))
        except (StoreError, FormatError) as error:
            for merge in merges:
                merge.failure = error
            return ()
        for merge in merges:
            assert merge.window is not None
            first, stop = merge.window
            merge.rows[first:stop] = [next(filled) for _ in range(first, stop)]
            if any(row.lacks_entries for row in merge.window_rows):
                merge.failure = FormatError(f"pages of rows of {merge.held.partition} are missing")
        return [merge for merge in merges if merge.failure is None]

    async def _merge(self, merge: _Merge, found: Sequence[memoryview] | None = None) -> bool:
        """Make one segment of the window (several of a row that is too large for one), and put it in its place.

        Return False if nothing was changed: a rewriting to a Parquet file that does not work here and now.

        Args:
            found: the bytes of the window's pieces, of one that makes one segment; held already.
        """
        assert merge.window is not None
        held, (first, stop) = merge.held, merge.window
        window, merge.window, merge.tried = merge.rows[first:stop], None, merge.window
        head = merge.head
        assert head is not None
        merged = []
        refused: list[str] = []
        untyped: list[str] = []
        for group in _groups_of(held, window, merge.policy, merge.pieces):
            if group.end_offset <= head.log_start_offset and group.end_offset < window[-1].end_offset:
                continue  # the part of a row that retention could not drop as long as it was one row
            size = sum(piece.length for piece in group.pieces)
            async with self._memory.hold(0 if found is not None else size):
                data = await self._pieces.read(group.pieces) if found is None else found
                builder = SegmentBuilder(group.base_offset)
                async for batch, offset, epoch in self._batches(held, head, group.pieces, data):
                    builder.append(batch, offset, epoch)
                made = TableSegment(builder.build(group.end_offset))
                size_bytes = made.segment.index.size_bytes
                if held.config.is_table and (
                    merge.closes or is_final(merge.rows, (first, stop), size_bytes, merge.policy)
                ):
                    made = await as_table(
                        held, made.segment, self._settings.table_group_bytes, partial(self._step, held)
                    )
                    refused += [made.why] if made.why else []
                    untyped += [made.untyped_why] if made.untyped_why else []
                    if merge.closes and made.why and (merge.pieces or not made.refused_by):
                        return False  # it would come again and again: as it is, it is as good
                row = await self._swap.upload(held, window, made.segment)
                merged.append(replace(row, refused_by=made.refused_by))
        await self._swap.replace(held, window, merged)
        if refused:
            await held.tables.states.refused(held.topic.topic_id, len(refused), refused[-1], self._clock.now_ms())
        if untyped:
            await held.tables.states.untyped(held.topic.topic_id, len(untyped), untyped[-1], self._clock.now_ms())
        held.report.done["rows_merged"] += len(window)
        held.report.done["bytes_merged"] += sum(row.size_bytes for row in window)
        held.report.done["segments_merged"] += len(merged)
        merge.rows[first:stop] = merged
        return True

    async def _step(self, held: HeldPartition, work: Callable[[], T]) -> T:
        """Do some seconds of work, then see to it that the partition is still held. Raises LeaseLost."""
        done = await asyncio.to_thread(work) if self._uses_threads else work()
        with suppress(StoreUnavailable):  # the next step tries again, and the swap needs the lease in any case
            await self._swap.hold_on(held)
        return done

    async def _batches(
        self, held: HeldPartition, head: PartitionHead, pieces: Sequence[Piece], found: Sequence[memoryview]
    ) -> AsyncIterator[tuple[Buffer, int, int]]:
        """Whole batches with their offsets and leader epochs, checked."""
        for piece, data in zip(pieces, found, strict=True):
            if not piece.is_segment:
                epoch = await self._epochs.at(held.partition, head, piece.base_offset)
                yield wal_batch(piece, data), piece.base_offset, epoch
                continue
            position = 0
            while position < len(data):
                header = parse_header(data, position)
                check_crc(data, position, header)
                batch = data[position : position + header.size_bytes]
                yield batch, header.base_offset, header.partition_leader_epoch
                position += header.size_bytes


@dataclass(frozen=True, slots=True)
class _Group:
    """What one new segment is made of."""

    pieces: Sequence[Piece]
    base_offset: int
    end_offset: int


@dataclass
class _Merge:
    """The merges of one partition in a run.

    Attributes:
        head: None: there is nothing to merge.
        rows: those that may be merged: the newest segments, the oldest spilled rows.
        is_all: there are no more.
        window: of `rows`, that are merged next.
        tried: the window before.
        closes: what is made never grows, whatever its size.
        pieces: of columnar rows of the window, by base offset.
    """

    held: HeldPartition
    policy: MergePolicy
    head: PartitionHead | None = None
    rows: list[IndexRow] = field(default_factory=list)
    is_all: bool = True
    window: tuple[int, int] | None = None
    tried: tuple[int, int] | None = None
    closes: bool = False
    pieces: dict[int, Sequence[Piece]] = field(default_factory=dict)
    failure: Exception | None = None

    @property
    def window_rows(self) -> Sequence[IndexRow]:
        assert self.window is not None
        return self.rows[slice(*self.window)]

    @property
    def window_bytes(self) -> int:
        return sum(row.size_bytes for row in self.window_rows)

    def wants(self, now_ms: int) -> bool:
        """Whether there is a window to merge."""
        if self.head is None or self.failure is not None:
            return False
        return choose_window(self.rows, self.policy, now_ms) is not None


class _Memory:
    """The stored bytes that merges hold, all together; one that alone is more waits until it is alone."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._held = 0
        self._freed = asyncio.Condition()

    @asynccontextmanager
    async def hold(self, size: int) -> AsyncIterator[None]:
        size = min(size, self._bytes_max)
        async with self._freed:
            await self._freed.wait_for(lambda: self._held + size <= self._bytes_max)
            self._held += size
        try:
            yield
        finally:
            # No await: what is cancelled gives back all the same.
            self._held -= size
            async with self._freed:
                self._freed.notify_all()


def _is_all(page: Sequence[IndexRow]) -> bool:
    """Return True if the newest rows are all that a merge can use: they reach a segment, or the beginning."""
    return len(page) < _ROWS_PER_PAGE or any(row.is_segment for row in page)


def _mergeable(rows: Sequence[IndexRow], head: PartitionHead) -> list[IndexRow]:
    """Rows whose spill is finished, without ghosts."""
    return [row for row in rows if row.end_offset <= head.tail_base_offset and not is_ghost(row, head.merged_offset)]


def _groups(merge: _Merge) -> Iterator[_Group]:
    assert merge.window is not None
    first, stop = merge.window
    return _groups_of(merge.held, merge.rows[first:stop], merge.policy, merge.pieces)


def _groups_of(
    held: HeldPartition, window: Sequence[IndexRow], policy: MergePolicy, columnar: Mapping[int, Sequence[Piece]]
) -> Iterator[_Group]:
    """Yield the contents of one new segment each. Args: columnar: the pieces of columnar rows, by base offset."""
    pieces = [
        piece
        for row in window
        for piece in (columnar[row.base_offset] if row.is_columnar else row_pieces(held.partition, row))
    ]
    starts = [0]
    if len(window) == 1:  # spilled: a segment alone is never merged
        bytes_max = max(policy.segment_bytes, window[0].size_bytes // _SEGMENTS_PER_ROW_MAX)
        length = 0
        for i, piece in enumerate(pieces):
            if length and length + piece.length > bytes_max:
                starts.append(i)
                length = 0
            length += piece.length
    bases = [window[0].base_offset, *(pieces[i].base_offset for i in starts[1:]), window[-1].end_offset]
    for (first, stop), (base_offset, end_offset) in zip(pairwise((*starts, len(pieces))), pairwise(bases), strict=True):
        yield _Group(pieces[first:stop], base_offset, end_offset)
