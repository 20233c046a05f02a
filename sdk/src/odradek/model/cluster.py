"""The cluster as clients see it."""

from __future__ import annotations

from dataclasses import dataclass

FLEET_BROKER_ID = 0
"""The function fleet is one logical broker; it leads every partition that no gateway leases."""


@dataclass(frozen=True, slots=True)
class Broker:
    """An address to send requests to: the fleet, or a gateway."""

    broker_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    """The broker that this process is, and the cluster's id."""

    cluster_id: str
    broker: Broker
