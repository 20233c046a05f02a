"""Reproducible random numbers."""

from __future__ import annotations

import random


class SeededRng:
    """ports.rng.Rng with the same sequence for the same seed."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)

    def random_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def random(self) -> float:
        return self._random.random()
