"""tables: serves tables and answers questions about their rows."""

from __future__ import annotations

from odradek.functions.tables import TablesHandler

from lambdas.wiring import wire

_parts = wire()

handler = TablesHandler(_parts.tables().api, _parts.instruments)
