"""The usage of a run by operation: the meter that adapters and functions feed. cost/prices.py has the prices."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from odradek.ports.meter import Usage

Snapshot = Mapping[str, Usage]


class UsageMeter:
    """ports.meter.Meter that adds up; it may be shared by threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._usage: dict[str, Usage] = {}
        self._calls: dict[str, int] = {}

    def add(self, operation: str, usage: Usage) -> None:
        """Count the usage of one call of an AWS operation (UpdateItem, PutObject ...)."""
        with self._lock:
            self._usage[operation] = self._usage.get(operation, Usage()) + usage
            self._calls[operation] = self._calls.get(operation, 0) + 1

    def total(self) -> Usage:
        """The usage so far."""
        return total(self.snapshot())

    def by_operation(self) -> dict[str, Usage]:
        """Return the usage so far by operation, in the order of names."""
        with self._lock:
            return dict(sorted(self._usage.items()))

    def calls(self) -> dict[str, int]:
        """Return the number of calls of each operation."""
        with self._lock:
            return dict(sorted(self._calls.items()))

    def snapshot(self) -> Snapshot:
        """Return the current state, to measure a part of a run with `since`."""
        return self.by_operation()

    def since(self, earlier: Snapshot) -> dict[str, Usage]:
        """Return the usage since the snapshot by operation, without operations that added nothing."""
        differences = {name: usage - earlier.get(name, Usage()) for name, usage in self.by_operation().items()}
        return {name: usage for name, usage in differences.items() if usage != Usage()}


def total(by_operation: Snapshot) -> Usage:
    """Return the sum over the operations."""
    return sum(by_operation.values(), start=Usage())
