"""What maintenance does, at the moment when it does it: the clean end of a run would have made up for it.

* a sweep deletes nothing that is younger than its horizon, and nothing that a writer could still bring into a log:
  by then every head has a sweep floor above it
* a maintenance lease is taken under the next epoch, and is not clean while it is held; it is in the hands of somebody
  when rows are replaced; whoever does not know of an upload does not end as clean
* a producer is forgotten when it has been silent for `producer_expiry_ms`
* who gives a maintenance lease back as clean has deleted every segment that lost its row
* below the first dirty offset of a compacted log each key is there once, every record has a key, and each batch with a
  tombstone has its delete horizon
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from odradek.format.batch_header import DELETE_HORIZON_FLAG, iter_headers
from odradek.format.object_id import object_id_ms
from odradek.format.record_batch import decode_batches
from odradek.ports.clock import Clock
from odradek.ports.table import Item

_CLOCKS_APART_MS = 80_000
_NOBODY = b""


class UpkeepBook:
    """What maintenance has left behind.

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
        """Whether an evicted producer may be forgotten by now: its last commit is long ago."""
        age_ms = self._clock.now_ms() - row["t"]  # type: ignore[operator]
        return age_ms > self.producer_expiry_ms - _CLOCKS_APART_MS

    # --- segments without rows --------------------------------------------------------------------------------------

    def lost_its_row(self, pk: str, keys: Iterable[str]) -> None:
        """A segment's row was removed; `keys`: of its objects."""
        self._rowless[pk].update(key for key in keys if self._has_object(key))

    def lease_stored(self, pk: str, old: Item | None, new: Item) -> None:
        """A maintenance lease was written."""
        if new["h"] != _NOBODY and new["c"]:
            self._problem(f"{pk}: a lease that is held says that it was left clean")
        if old is not None and new["h"] not in (_NOBODY, old["h"]) and new["e"] != old["e"] + 1:  # type: ignore[operator]
            self._problem(f"{pk}: a lease was taken in epoch {old['e']}, and has epoch {new['e']} now")
        left = self._rowless[pk] = {key for key in self._rowless[pk] if self._has_object(key)}
        if left and new["h"] == _NOBODY and new["c"]:
            self._problem(f"{pk}: maintenance ends as clean and leaves {min(left)}")

    def is_left_clean(self, lease: Item) -> bool:
        """Whether nobody holds the lease, and nobody needs to look for what its last holder left."""
        return lease["h"] == _NOBODY and lease["c"] is True

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
