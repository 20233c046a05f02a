"""Calls of triggers' functions, in the order in which they began and ended.

A record is known by its offset and its content: where a topic was deleted and created again, or retention has removed
records, only those that the log has in the end are looked at. The book says of them

    done        each was handed over by a call that succeeded, or given up to the failure topic
    order       a call begins when all before it in its lane are done; it leaves none of them out
    overlap     no two calls of a lane at a time, unless clocks jump: a lease lasts by the clock
    windows     each record is in the state of one window's last call, in order; a repeated one may have more records
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from odradek.model.record import Record
from odradek.model.trigger import Trigger
from odradek.triggers.progress import lane_of


class Known(NamedTuple):
    """A record, as calls and the log have it."""

    offset: int
    content: str


@dataclass
class _Called:
    trigger: str
    partition: str
    records: Sequence[Known]
    lane: int
    done: Sequence[Known] = ()
    during: list[int] = field(default_factory=list)  # the calls that were under way when it began


@dataclass
class TriggerBook:
    """The calls of a run.

    Attributes:
        problems: seen while they happened.
        may_overlap: clocks jump.
        finals: the records in the state of the last call of each window, by trigger and partition.
    """

    triggers: list[Trigger] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    may_overlap: bool = False
    finals: dict[tuple[str, str], set[tuple[Known, ...]]] = field(default_factory=dict)
    _calls: list[_Called] = field(default_factory=list)
    _events: list[tuple[bool, int]] = field(default_factory=list)  # whether it began or ended, and which call
    _under_way: dict[tuple[str, str, int], set[int]] = field(default_factory=dict)

    def begin(self, trigger: str, partition: str, records: Sequence[Known], keys: Sequence[str | None]) -> int:
        """A call begins; return its number."""
        factor = next(definition.parallelization_factor for definition in self.triggers if definition.name == trigger)
        decoded = [None if key is None else base64.b64decode(key) for key in keys]
        lanes = {
            lane_of(Record(record.offset, 0, key, None), factor) for record, key in zip(records, decoded, strict=True)
        }
        if len(lanes) > 1:
            self.problems.append(f"{trigger} {partition}: one call with records of the lanes {sorted(lanes)}")
        lane, number = min(lanes, default=0), len(self._calls)
        under_way = self._under_way.setdefault((trigger, partition, lane), set())
        self._calls.append(_Called(trigger, partition, records, lane, during=sorted(under_way)))
        self._events.append((True, number))
        under_way.add(number)
        return number

    def end(self, number: int, done: Sequence[Known]) -> None:
        """A call ends; these records are done."""
        called = self._calls[number]
        called.done = done
        self._events.append((False, number))
        self._under_way[called.trigger, called.partition, called.lane].discard(number)

    def final(self, trigger: str, partition: str, window: Iterable[Known]) -> None:
        """The last call of a window has succeeded; its state had these records."""
        self.finals.setdefault((trigger, partition), set()).add(tuple(window))

    def audit(
        self, trigger: str, partition: str, lanes: Mapping[int, Sequence[Known]], given_up: Iterable[Known]
    ) -> list[str]:
        """Compare with the log: the records of each lane, and those that went to the failure topic."""
        problems: list[str] = []
        logged = {record for of_lane in lanes.values() for record in of_lane}
        done: set[Known] = set(given_up)
        for began, number in self._events:
            called = self._calls[number]
            if (called.trigger, called.partition) != (trigger, partition):
                continue
            if not began:
                done.update(called.done)
                continue
            problems += self._overlaps(called, logged)
            records = [record for record in called.records if record in logged]
            if not records:
                continue
            first, last = records[0], records[-1]
            of_lane = lanes.get(called.lane, ())
            if early := [record.offset for record in of_lane if record.offset < first.offset and record not in done]:
                problems.append(f"{trigger} {partition}: {first.offset} is called with before {early[:3]} were done")
            if records != [record for record in of_lane if first.offset <= record.offset <= last.offset]:
                problems.append(
                    f"{trigger} {partition}: called with {[record.offset for record in records]}, with holes"
                )
        if missing := sorted(record.offset for record in logged - done):
            problems.append(f"{trigger} {partition}: never done: {missing[:5]}")
        return problems

    def _overlaps(self, called: _Called, logged: set[Known]) -> list[str]:
        """Calls with records of the log during which another one with such records began."""
        if self.may_overlap or not logged.intersection(called.records):
            return []
        others = [self._calls[number] for number in called.during]
        return [
            f"{called.trigger} {called.partition} lane {called.lane}: called with {called.records[0].offset} during "
            f"the call with {other.records[0].offset}"
            for other in others
            if logged.intersection(other.records)
        ]

    def audit_windows(self, trigger: str, partition: str, records: Sequence[Known]) -> list[str]:
        """Compare the states of the windows that are over with the log."""
        logged = set(records)
        called = {
            tuple(record for record in window if record in logged)
            for window in self.finals.get((trigger, partition), ())
        }
        # The last call of a dispatcher that died before its commit is repeated, with what has come meanwhile.
        windows = {window for window in called if not any(window == more[: len(window)] for more in called - {window})}
        window_records = [record for window in sorted(windows) for record in window]
        if window_records != list(records):
            wrong = [record.offset for record in window_records], [record.offset for record in records]
            return [f"{trigger} {partition}: the windows have the records {wrong[0]} of {wrong[1]}"]
        return []
