"""maintenance: called by a schedule, plans maintenance and sends the tasks to the queue."""

from __future__ import annotations

from odradek.functions.maintenance import MaintenanceHandler

from lambdas.wiring import wire

_parts = wire()

handler = MaintenanceHandler(
    _parts.engine.maintenance,
    _parts.instruments,
    rng=_parts.engine.rng,
    queue=_parts.open_queue(),
    backlogs=_parts.engine.backlogs,
    limits=_parts.settings,
    sweeps=_parts.sweeps(),
)
