"""Test support for Odradek and its users: a controlled clock, seeded random numbers, and the contract of every port."""

from __future__ import annotations

from odradek.testing.manual_clock import ManualClock
from odradek.testing.seeded_rng import SeededRng

__all__ = ["ManualClock", "SeededRng"]
