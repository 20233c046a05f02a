"""Every planted bug, wherever it is written: `PLANTED` once this module has been imported."""

from __future__ import annotations

from tests.simulation import (
    planted_classic,
    planted_foreign,
    planted_isolation,
    planted_maintenance,
    planted_share,
    planted_stock,
    planted_time,
    planted_transactions,
)
from tests.simulation.planted import PLANTED

# Importing a module registers its bugs.
MODULES = (
    planted_classic,
    planted_foreign,
    planted_isolation,
    planted_maintenance,
    planted_share,
    planted_stock,
    planted_time,
    planted_transactions,
)

__all__ = ["MODULES", "PLANTED"]
