"""Random numbers as a parameter, so that a simulation can control them."""

from __future__ import annotations

from typing import Protocol


class Rng(Protocol):
    def random_bytes(self, count: int) -> bytes:
        """Return `count` unpredictable bytes (ids)."""
        ...

    def random(self) -> float:
        """Return a number in [0, 1) (jitter)."""
        ...
