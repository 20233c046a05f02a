"""Every planted bug, wherever it is written: `PLANTED` once this module has been imported."""

from __future__ import annotations

from tests.simulation.planted import (
    classic,
    foreign,
    groups,
    growth,
    isolation,
    log,
    maintenance,
    share,
    shared,
    stock,
    streams,
    tables,
    time,
    transactions,
    triggers,
)
from tests.simulation.planted.bug import PLANTED

# Importing a module registers its bugs.
MODULES = (
    classic,
    foreign,
    groups,
    growth,
    isolation,
    log,
    maintenance,
    share,
    shared,
    stock,
    streams,
    tables,
    time,
    transactions,
    triggers,
)

__all__ = ["MODULES", "PLANTED"]
