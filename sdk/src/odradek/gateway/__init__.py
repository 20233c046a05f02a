"""The Kafka port: TCP in front of the same dispatcher, so that any Kafka client can speak to the log.

    bytes ─ connection.py ─> frames in order ─ sasl.py ─> who ─ dispatcher ─> engine
                                                                  └─ group_commit.py: many connections' produce, merged

`Gateway` is the server; `odradek local --kafka-port` runs one beside the functions, `python -m odradek.gateway` one
over AWS. Nothing that matters is kept in a gateway: any number may serve one store, and one may die at any time.
"""

from __future__ import annotations

from odradek.gateway.server import Gateway, Listener

__all__ = ["Gateway", "Listener"]
