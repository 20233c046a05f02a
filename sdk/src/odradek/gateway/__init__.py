"""The Kafka port: a TCP server in front of the same dispatcher, for all Kafka clients.

    bytes ─ connection.py ─> frames in order ─ sasl.py ─> principal ─ dispatcher ─> engine
                                                                  └─ group_commit.py: merges Produce requests

`Gateway` is the server; `odradek local --kafka-port` runs one beside the functions, `python -m odradek.gateway` one
over AWS. A gateway keeps no durable state: any number may serve one store, and each may be killed at any time.
"""

from __future__ import annotations

from odradek.gateway.server import Gateway, Listener

__all__ = ["Gateway", "Listener"]
