"""What a run used, by operation: the meter that adapters and functions feed. cost/prices.py makes dollars of it."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from odradek.ports.meter import Usage

Snapshot = Mapping[str, Usage]


class UsageMeter:
    """ports.meter.Meter that adds up; threads may share it."""

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
        """Everything so far."""
        return total(self.snapshot())

    def by_operation(self) -> dict[str, Usage]:
        """Everything so far, by operation in the order of their names."""
        with self._lock:
            return dict(sorted(self._usage.items()))

    def calls(self) -> dict[str, int]:
        """How often each operation was counted."""
        with self._lock:
            return dict(sorted(self._calls.items()))

    def snapshot(self) -> Snapshot:
        """The state now, to measure a part of a run with `since`."""
        return self.by_operation()

    def since(self, earlier: Snapshot) -> dict[str, Usage]:
        """What was added after the snapshot was taken, by operation; operations that added nothing are left out."""
        differences = {name: usage - earlier.get(name, Usage()) for name, usage in self.by_operation().items()}
        return {name: usage for name, usage in differences.items() if usage != Usage()}


def total(by_operation: Snapshot) -> Usage:
    """The sum over the operations."""
    return sum(by_operation.values(), start=Usage())
