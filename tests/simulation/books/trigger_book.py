"""What functions of triggers were called with, in the order in which calls began and ended."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from odradek.model.record import Record
from odradek.model.trigger import Trigger
from odradek.triggers.progress import lane_of


@dataclass
class _Called:
    trigger: str
    partition: str
    offsets: Sequence[int]
    lane: int
    done: Sequence[int] = ()


@dataclass
class TriggerBook:
    """The calls of a run.

    Attributes:
        problems: seen while they happened.
    """

    triggers: list[Trigger] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    _calls: list[_Called] = field(default_factory=list)
    _events: list[tuple[bool, int]] = field(default_factory=list)  # whether it began or ended, and which call
    _under_way: dict[tuple[str, str, int], int] = field(default_factory=dict)

    def begin(self, trigger: str, partition: str, offsets: Sequence[int], keys: Sequence[str | None]) -> int:
        """A call begins; return its number."""
        factor = next(each.parallelization_factor for each in self.triggers if each.name == trigger)
        decoded = [None if key is None else base64.b64decode(key) for key in keys]
        lanes = {lane_of(Record(offset, 0, key, None), factor) for offset, key in zip(offsets, decoded, strict=True)}
        if len(lanes) != 1:
            self.problems.append(f"{trigger} {partition}: one call with records of the lanes {sorted(lanes)}")
        lane, number = min(lanes), len(self._calls)
        self._calls.append(_Called(trigger, partition, offsets, lane))
        self._events.append((True, number))
        if (other := self._under_way.get((trigger, partition, lane))) is not None:
            called = self._calls[other]
            self.problems.append(
                f"{trigger} {partition} lane {lane}: called with {offsets} during the call with {called.offsets}"
            )
        self._under_way[trigger, partition, lane] = number
        return number

    def end(self, number: int, done: Sequence[int]) -> None:
        """A call ends; these records are done."""
        called = self._calls[number]
        called.done = done
        self._events.append((False, number))
        if self._under_way.get((called.trigger, called.partition, called.lane)) == number:
            del self._under_way[called.trigger, called.partition, called.lane]

    def audit(self, trigger: str, partition: str, lanes: Mapping[int, Sequence[int]]) -> list[str]:
        """Compare with the log: the offsets of each lane."""
        problems: list[str] = []
        done: set[int] = set()
        for began, number in self._events:
            called = self._calls[number]
            if (called.trigger, called.partition) != (trigger, partition):
                continue
            if not began:
                done.update(called.done)
                continue
            first, last = called.offsets[0], called.offsets[-1]
            of_lane = lanes.get(called.lane, ())
            if early := [offset for offset in of_lane if offset < first and offset not in done]:
                problems.append(f"{trigger} {partition}: {first} is called with before {early[:3]} were done")
            expected = [offset for offset in of_lane if first <= offset <= last]
            if list(called.offsets) != expected:
                problems.append(f"{trigger} {partition}: called with {called.offsets}, not with {expected}")
        missing = [offset for offsets in lanes.values() for offset in offsets if offset not in done]
        if missing:
            problems.append(f"{trigger} {partition}: never done: {sorted(missing)[:5]}")
        return problems
