"""Checks of maintenance at the moment of its work: the clean end of a run would have made up for it.

* a sweep deletes nothing that is younger than its horizon, and nothing that a writer could still bring into a log:
  by then every head has a sweep floor above it
* a partition that becomes visible has the sweep's floor
* a maintenance lease is taken under the next epoch, and is not clean while it is held; it is in the hands of somebody
  when rows are replaced
* who takes a lease that was not left clean, and gives it back as clean, has deleted what no row refers to and was there
  before; nobody gives it back as clean while an upload of its own is on its way
* a producer is forgotten when it has been silent for `producer_expiry_ms`
* who gives a maintenance lease back as clean has deleted every segment that lost its row
* below the first dirty offset of a compacted log each key is there once, every record has a key, and each batch with a
  tombstone has its delete horizon
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator
from typing import NamedTuple

from odradek.format.batch_header import DELETE_HORIZON_FLAG, iter_headers
from odradek.format.object_id import object_id_ms
from odradek.format.record_batch import decode_batches
from odradek.ports.clock import Clock
from odradek.ports.table import Item

_CLOCKS_APART_MS = 80_000
_NOBODY = b""


class _Taking(NamedTuple):
    """The taking of a maintenance lease: the owner, and the number of uploads before it."""

    caller: str
    epoch: object
    was_clean: bool
    uploads_before: int


class UpkeepBook:
    """State of maintenance after each of its writes.

    Args:
        problem: takes note of what is wrong.
        clock: the true one.
        has_object: whether an object is there.

    Attributes:
        sweep_horizon_ms, producer_expiry_ms: the settings; 0: not known yet.
    """

    def __init__(self, problem: Callable[[str], None], clock: Clock, has_object: Callable[[str], bool]) -> None:
        self._problem = problem
        self._clock = clock
        self._has_object = has_object
        self.sweep_horizon_ms = 0
        self.producer_expiry_ms = 0
        self._rowless: dict[str, set[str]] = defaultdict(set)  # objects of segments that were in a row
        self._segments: dict[str, dict[str, int]] = defaultdict(dict)  # objects, with the number of uploads before
        self._uploads = 0
        self._takings: dict[str, _Taking] = {}
        self._on_their_way: dict[tuple[str, str, object], Counter[str]] = defaultdict(Counter)
        self._first_dirty: dict[str, int] = defaultdict(int)

    # --- sweeps -----------------------------------------------------------------------------------------------------

    def swept(self, object_id: bytes, floors: Iterable[tuple[str, bytes]], *, is_clock_right: bool) -> None:
        """A WAL object or item was deleted.

        Args:
            floors: of every partition that can be written to.
            is_clock_right: whether the clock of whoever did it has never jumped.
        """
        age_ms = self._clock.now_ms() - object_id_ms(object_id)
        if is_clock_right and age_ms < self.sweep_horizon_ms - _CLOCKS_APART_MS:
            self._problem(f"the upload {object_id.hex()} was swept at the age of {age_ms} ms")
        for pk, floor in floors:
            if floor <= object_id:
                self._problem(f"{pk}: the sweep floor is not above {object_id.hex()}, which was swept")

    # --- producers --------------------------------------------------------------------------------------------------

    def is_silent(self, row: Item) -> bool:
        """Return True if an evicted producer may be forgotten by now: its last commit is long ago."""
        age_ms = self._clock.now_ms() - row["t"]  # type: ignore[operator]
        return age_ms > self.producer_expiry_ms - _CLOCKS_APART_MS

    # --- segments without rows --------------------------------------------------------------------------------------

    def lost_its_row(self, pk: str, keys: Iterable[str]) -> None:
        """A segment's row was removed; `keys`: of its objects."""
        self._rowless[pk].update(key for key in keys if self._has_object(key))

    def segment_put(self, pk: str, key: str) -> None:
        """An object of a segment was created."""
        self._uploads += 1
        self._segments[pk][key] = self._uploads

    def sent_late(self, pk: str, epoch: int, sender: str, key: str) -> None:
        """An object of a segment is on its way, and its sender does not know what becomes of it.

        Args:
            epoch: of the partition's maintenance lease.
        """
        self._on_their_way[pk, sender, epoch][key] += 1

    def arrived(self, pk: str, epoch: int, sender: str, key: str) -> None:
        """It has arrived; what a former holder sent is found by a scan of later takings, or after a day of rest."""
        self._on_their_way[pk, sender, epoch][key] -= 1
        taking = self._takings.get(pk)
        if taking is None or (taking.caller, taking.epoch) != (sender, epoch):
            self._rowless[pk].discard(key)

    def lease_stored(
        self, pk: str, old: Item | None, new: Item, caller: str, named: Callable[[], Container[str]]
    ) -> None:
        """A maintenance lease was written.

        Args:
            named: the objects that rows of the partition refer to.
        """
        if new["h"] != _NOBODY and new["c"]:
            self._problem(f"{pk}: a lease that is held says that it was left clean")
        is_taken = old is not None and new["h"] not in (_NOBODY, old["h"])
        if is_taken and new["e"] != old["e"] + 1:  # type: ignore[operator,index]
            self._problem(f"{pk}: a lease was taken in epoch {old['e']}, and has epoch {new['e']} now")  # type: ignore[index]
        if is_taken or old is None:
            was_clean = old is None or bool(old["c"])
            self._takings[pk] = _Taking(caller, new["e"], was_clean, self._uploads)
        left = self._rowless[pk] = {key for key in self._rowless[pk] if self._has_object(key)}
        if new["h"] != _NOBODY or not new["c"]:
            return
        if left:
            self._problem(f"{pk}: maintenance ends as clean and leaves {min(left)}")
        self._segments[pk] = {key: at for key, at in self._segments[pk].items() if self._has_object(key)}
        taking = self._takings[pk]
        older = [key for key, at in self._segments[pk].items() if at <= taking.uploads_before]
        if not taking.was_clean and any(key not in named() for key in older):
            self._problem(f"{pk}: maintenance began unclean, ends as clean, and leaves what nothing refers to")
        if waiting := +self._on_their_way[pk, taking.caller, taking.epoch]:
            self._problem(f"{pk}: maintenance ends as clean, and {min(waiting)} is on its way")

    # --- the clean part of a compacted log --------------------------------------------------------------------------

    def compacted(self, pk: str, first_dirty: int, log_start: int, contents: Callable[[], Iterator[bytes]]) -> None:
        """The state of a compaction was written.

        Args:
            contents: of the segments below the first dirty offset, in order.
        """
        if first_dirty <= self._first_dirty[pk]:
            return
        self._first_dirty[pk] = first_dirty
        offsets: dict[bytes | None, int] = {}
        tombstones: set[int] = set()
        for content in contents():
            for record in decode_batches(content):
                if not log_start <= record.offset < first_dirty:
                    continue
                if record.key is None or record.key in offsets:
                    why = "no key" if record.key is None else f"the key of {offsets[record.key]}"
                    self._problem(f"{pk}: compaction up to {first_dirty} left {record.offset}, which has {why}")
                offsets[record.key] = record.offset
                if record.value is None:
                    tombstones.add(record.offset)
            for _, header in iter_headers(content):
                has_tombstone = not tombstones.isdisjoint(range(header.base_offset, header.next_offset))
                is_below = header.base_offset >= log_start and header.next_offset <= first_dirty
                if has_tombstone and is_below and not header.attributes & DELETE_HORIZON_FLAG:
                    self._problem(f"{pk}: compaction up to {first_dirty} gave {header.base_offset} no delete horizon")
