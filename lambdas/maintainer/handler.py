"""maintainer: called with messages of the queue, runs the planned maintenance."""

from __future__ import annotations

from odradek.functions.maintainer import MaintainerHandler
from odradek.registry.subjects import Subjects
from odradek.registry.value_schemas import RegistryValueSchemas

from lambdas.wiring import wire

_parts = wire()
_engine = _parts.engine
_engine.know_schemas(RegistryValueSchemas(Subjects(_engine.catalog, _engine.clock, _engine.rng)))

handler = MaintainerHandler(
    _engine.maintenance,
    _parts.instruments,
    tasks_at_once=_parts.settings.maintenance_parallelism,
)
