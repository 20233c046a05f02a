"""Test support for Odradek and its users: fixtures of pytest, clocks, random numbers, and the contract of every port.

Names are imported on first use: pytest loads the plugin in every environment with Odradek.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odradek.testing.manual_clock import ManualClock
    from odradek.testing.seeded_rng import SeededRng
    from odradek.testing.shifted_clock import ShiftedClock

__all__ = ["ManualClock", "SeededRng", "ShiftedClock"]

_HOMES = {
    "ManualClock": "odradek.testing.manual_clock",
    "SeededRng": "odradek.testing.seeded_rng",
    "ShiftedClock": "odradek.testing.shifted_clock",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
