"""maintainer: called with messages of the queue, runs the planned maintenance."""

from __future__ import annotations

from odradek.functions.maintainer import MaintainerHandler

from lambdas.wiring import wire

_parts = wire()

handler = MaintainerHandler(
    _parts.engine.maintenance,
    _parts.instruments,
    tasks_at_once=_parts.settings.maintenance_parallelism,
)
