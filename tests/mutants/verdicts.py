"""What is known of mutants: the file of the simulation's results, and the verdict of one that was made by rule."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("measured.json")


def verdict(made: Mapping[str, Any]) -> str:
    """Return equivalent, noticed, survived or not tried."""
    if made.get("equivalent"):
        return "equivalent"
    if made.get("killed_by"):
        return "noticed"
    return "survived" if "cpu_s" in made else "not tried"
