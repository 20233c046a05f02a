"""Records that have been taken out of the buffer but not yet returned to the application.

A run holds the records of one partition from one batch. `HeldRecords` returns them one by one, for iteration.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from odradek.client.consumer.positions import PartitionState
from odradek.client.consumer.record import ConsumerRecord


@dataclass(slots=True)
class Run:
    """Consecutive records of one partition.

    Attributes:
        version: of the partition's state when the records were fetched.
        after: the position after the last of the records.
    """

    state: PartitionState
    version: int
    records: list[ConsumerRecord]
    after: int


class HeldRecords:
    """Runs whose records are returned one by one. A run whose partition has changed since the fetch is dropped."""

    def __init__(self) -> None:
        self._runs: deque[Run] = deque()
        self._at = 0  # in the first of them

    def __bool__(self) -> bool:
        return bool(self._runs)

    def add(self, runs: Iterable[Run]) -> None:
        self._runs.extend(runs)

    def next(self) -> ConsumerRecord | None:
        """Return the next record and move the position past it."""
        while self._runs:
            run, at = self._runs[0], self._at
            if run.state.version == run.version:
                record = run.records[at]
                if at + 1 < len(run.records):
                    self._at = at + 1
                    run.state.position = record.offset + 1
                else:
                    self._finish_run()
                    run.state.position = run.after
                return record
            self._finish_run()
        return None

    def _finish_run(self) -> None:
        self._runs.popleft()
        self._at = 0

    def give_back(self) -> bool:
        """Drop the held records, so that they are fetched again. Return True if there were any."""
        for run in self._runs:
            if run.state.version == run.version:
                run.state.drop_buffered()
        had_any = bool(self._runs)
        self.clear()
        return had_any

    def clear(self) -> None:
        self._runs.clear()
        self._at = 0
