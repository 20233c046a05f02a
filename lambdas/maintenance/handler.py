"""maintenance: called by a schedule, one pass over what no request waits for."""

from __future__ import annotations

from odradek.functions.maintenance import MaintenanceHandler

from lambdas.wiring import wire

_parts = wire()

handler = MaintenanceHandler(
    _parts.engine.maintenance,
    clock=_parts.clock,
    meter=_parts.meter,
    cluster_id=_parts.settings.cluster_id,
    backlogs=_parts.engine.backlogs,
)
