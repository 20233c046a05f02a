"""Promises about time, when they could be broken: what compaction drops, as the row of the new segment appears.

* nothing that is younger than `min.compaction.lag.ms`
* of the last records of their keys only tombstones, and those not before their delete horizon, which no compaction sets
  sooner than `delete.retention.ms` after the record entered the log

At the end of a run it would be too late to tell: by then everything is old enough.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from odradek.format.batch_header import iter_headers
from odradek.format.record_batch import decode_batches
from odradek.ports.clock import Clock

_DAY_MS = 86_400_000
_CLOCKS_APART_MS = 80_000
_HAS_HORIZON = 0x40


class Compactable(NamedTuple):
    """A record as compaction judges it."""

    offset: int
    key: bytes | None
    is_tombstone: bool
    timestamp_ms: int
    identity: bytes = b""


class TimeBook:
    """Records that compaction removed, by time.

    Args:
        problem: takes note of what is wrong.
        clock: the true one.
    """

    def __init__(self, problem: Callable[[str], None], clock: Clock) -> None:
        self._problem = problem
        self._clock = clock
        self._gone: dict[str, set[int]] = defaultdict(set)
        self._horizons_ms: dict[str, dict[int, int]] = defaultdict(dict)

    def segment_stored(
        self,
        pk: str,
        span: tuple[int, int],
        content: bytes,
        log_start: int,
        truth: Sequence[Compactable],
        configs: Sequence[dict[str, str]],
    ) -> None:
        """A segment took the place of others.

        Args:
            span: its offsets, half-open.
            truth: every record that entered the partition so far, dense.
            configs: every configuration that the topic has had.
        """
        offsets = {record.offset for record in decode_batches(content)}
        removed = self._gone[pk]
        fresh = [r for r in truth[span[0] : span[1]] if r.offset >= log_start and r.offset not in offsets | removed]
        if fresh:
            last_of_key = {record.key: record.offset for record in truth}
            for record in fresh:
                self._dropped(pk, record, last_of_key[record.key], configs)
        removed.update(record.offset for record in fresh)
        keeps_ms = min(int(config.get("delete.retention.ms", _DAY_MS)) for config in configs)
        for _, header in iter_headers(content):
            if header.attributes & _HAS_HORIZON:
                for offset in range(header.base_offset, header.next_offset):
                    self._horizon_set(pk, truth[offset], header.base_timestamp_ms, keeps_ms)

    def _horizon_set(self, pk: str, record: Compactable, horizon_ms: int, keeps_ms: int) -> None:
        self._horizons_ms[pk].setdefault(record.offset, horizon_ms)
        if record.is_tombstone and horizon_ms < record.timestamp_ms + keeps_ms - _CLOCKS_APART_MS:
            self._problem(f"{pk}: the tombstone at {record.offset} is to go at {horizon_ms}, before its time")

    def _dropped(self, pk: str, record: Compactable, last: int, configs: Sequence[dict[str, str]]) -> None:
        earliest_ms = self._clock.now_ms() + _CLOCKS_APART_MS  # by the clock of any maintainer it is not later
        lag_ms = min(int(config.get("min.compaction.lag.ms", 0)) for config in configs)
        if lag_ms and record.timestamp_ms > earliest_ms - lag_ms:
            self._problem(f"{pk}: {record.offset} was compacted within min.compaction.lag.ms={lag_ms}")
        if last > record.offset:
            return
        horizon_ms = self._horizons_ms[pk].get(record.offset)
        if not record.is_tombstone:
            self._problem(f"{pk}: the last record of its key at {record.offset} was compacted away")
        elif horizon_ms is None or horizon_ms > earliest_ms:
            self._problem(f"{pk}: the tombstone at {record.offset} went before its delete horizon {horizon_ms}")
