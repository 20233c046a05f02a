"""trigger-dispatcher: called with wake messages of the queue, calls the triggers' functions with new records."""

from __future__ import annotations

from odradek.functions.triggers import TriggerDispatcherHandler

from lambdas.wiring import wire

_parts = wire()

handler = TriggerDispatcherHandler(_parts.triggers().dispatcher, _parts.instruments)
