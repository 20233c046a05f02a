"""Commit times of appends: chosen just before the update, above every floor that refused one (docs/decisions/0002)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from odradek.format.tail_entry import TailEntry
from odradek.model.topic_partition import PartitionId
from odradek.ports.clock import Clock

_FLOORS_KEPT = 4096
_FLOORS_KEPT_S = 60.0  # then a floor is met again: it may have been lowered (audit/floors.py)
_COMMIT_AHEAD_MS_MAX = 60_000


class CommitTimes:
    """Commit times: this process' clock, but above every spill floor that refused one.

    Where a merge has taken the rows that could tell, a refused append is not known to be new. A clock that is behind
    must meet that once, and not until it has caught up.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._floors_ms: OrderedDict[PartitionId, tuple[int, float]] = OrderedDict()

    def next_ms(self, partition: PartitionId) -> int:
        """The commit time of an append that begins now."""
        floor_ms, met_s = self._floors_ms.get(partition, (-1, 0.0))
        is_kept = self._clock.monotonic() - met_s < _FLOORS_KEPT_S
        return max(self._clock.now_ms(), floor_ms + 1 if is_kept else 0)

    def met(self, partition: PartitionId, floor_ms: int) -> None:
        """A floor refused an append."""
        if floor_ms >= self._clock.now_ms():
            self._floors_ms[partition] = floor_ms, self._clock.monotonic()
            self._floors_ms.move_to_end(partition)
            if len(self._floors_ms) > _FLOORS_KEPT:
                self._floors_ms.popitem(last=False)


def stamped(entries: Sequence[TailEntry], commit_ms: int, now_ms: int) -> list[TailEntry]:
    """Return the entries with a commit time, which is also the append time for LogAppendTime.

    A floor that a wrong clock has raised keeps commit times ahead until real time has caught up. Append times, which
    users see and retention uses, do not follow it: if the floor is implausibly far ahead they are the writer's time.

    Args:
        now_ms: by the writer's clock.
    """
    append_ms = commit_ms if commit_ms - now_ms <= _COMMIT_AHEAD_MS_MAX else now_ms
    return [entry.committed_at(commit_ms, append_ms) for entry in entries]
