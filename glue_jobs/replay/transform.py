"""The time at which a slice of a table is due. Pure.

event time   t0 ────────── low ── high ────>       [low, high) is due at  start + (low - t0) / speed
"""

from __future__ import annotations


def due_s(low_us: int, first_us: int, speed: float) -> float:
    """Return the seconds after the start at which a slice that begins at `low_us` is due; 0 without a pace."""
    return 0.0 if speed <= 0 else (low_us - first_us) / 1e6 / speed
