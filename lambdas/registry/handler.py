"""registry: the schema registry, Confluent's REST API."""

from __future__ import annotations

from odradek.functions.registry import RegistryHandler
from odradek.registry.api import RegistryApi
from odradek.registry.subjects import Subjects

from lambdas.wiring import wire

_parts = wire()
_engine = _parts.engine

handler = RegistryHandler(
    RegistryApi(Subjects(_engine.catalog, _engine.clock, _engine.rng), _engine.acls, _parts.settings.cluster_id),
    _parts.instruments,
)
