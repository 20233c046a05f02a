"""Records that are taken out of the buffer, before the application has them.

A run is what one batch gave of one partition; `HeldRecords` hands runs out record by record, for iteration.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from odradek.client.consumer.positions import PartitionState
from odradek.client.consumer.record import ConsumerRecord


@dataclass(slots=True)
class Run:
    """Records of one partition that follow each other.

    Attributes:
        version: of the state when they were fetched.
        after: the position when all have been handed out.
    """

    state: PartitionState
    version: int
    records: list[ConsumerRecord]
    after: int


class HeldRecords:
    """Runs of which one record after the other is handed out; those whose partition has moved on are dropped."""

    def __init__(self) -> None:
        self._runs: deque[Run] = deque()
        self._at = 0  # in the first of them

    def __bool__(self) -> bool:
        return bool(self._runs)

    def add(self, runs: Iterable[Run]) -> None:
        self._runs.extend(runs)

    def next(self) -> ConsumerRecord | None:
        """The next record; the position moves past it."""
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
        """Have what is held fetched again from the position on; whether there was anything."""
        for run in self._runs:
            if run.state.version == run.version:
                run.state.drop_buffered()
        had_any = bool(self._runs)
        self.clear()
        return had_any

    def clear(self) -> None:
        self._runs.clear()
        self._at = 0
