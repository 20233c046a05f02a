"""Chance as a parameter, so that a simulation can own it."""

from __future__ import annotations

from typing import Protocol


class Rng(Protocol):
    def random_bytes(self, count: int) -> bytes:
        """That many unpredictable bytes (ids)."""
        ...

    def random(self) -> float:
        """A number in [0, 1) (jitter)."""
        ...
