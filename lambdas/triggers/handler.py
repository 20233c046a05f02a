"""triggers: creates, describes, pauses, resets and deletes triggers, for clients and for CloudFormation."""

from __future__ import annotations

from odradek.functions.triggers import TriggersHandler
from odradek.triggers.api import TriggersApi

from lambdas.wiring import wire

_parts = wire()

handler = TriggersHandler(TriggersApi(_parts.triggers().triggers, _parts.engine.acls), _parts.instruments)
