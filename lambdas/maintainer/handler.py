"""maintainer: called with messages of the queue, does the maintenance that was planned."""

from __future__ import annotations

from odradek.functions.maintainer import MaintainerHandler

from lambdas.wiring import wire

_parts = wire()

handler = MaintainerHandler(
    _parts.engine.maintenance,
    tasks_at_once=_parts.settings.maintenance_parallelism,
    clock=_parts.clock,
    meter=_parts.meter,
    cluster_id=_parts.settings.cluster_id,
)
