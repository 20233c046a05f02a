"""Costs of gateways beside their requests to the stores: tasks on Fargate, and the load balancer with what passes it.
Pure.

    capacity    of the balancer, by the bytes through it; each GB an hour also carries 800 new connections a second and
                100,000 open ones, which clients of Kafka do not reach before
    zones       a client meets the balancer in its own zone (infra/stacks/gateway.py). From there its connection goes to
                a task of any zone, and what crosses is billed; with `gateway_zonal` nothing does
    direct      with `gateway_direct` a client leaves the balancer after its first connection, for tasks of its zone:
                the balancer costs its hours, and the zones' names cost their hosted zone
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from odradek.cost.fixtures import MONTH_S
from odradek.cost.prices import GIB, US_EAST_1, PriceList


@dataclass(frozen=True, slots=True)
class Gateways:
    """Tasks of one size (`gateway_tasks`, `gateway_cpu`, `gateway_memory_mb`)."""

    tasks: int
    cpu: int = 1024  # of 1,024 a vCPU
    memory_mb: int = 2048
    zones: int = 1  # among whose tasks the balancer deals connections; 1: each zone's serve its clients (gateway_zonal)
    direct: bool = False  # clients reach tasks by the names of their zones (gateway_direct)


def gateway_cost(gateways: Gateways, bytes_per_s: float, prices: PriceList = US_EAST_1) -> Mapping[str, float]:
    """Return dollars per month, by component.

    Args:
        bytes_per_s: what clients write and read, together.
    """
    hours = MONTH_S / 3600
    task = gateways.cpu / 1024 * prices.task_vcpu_hour + gateways.memory_mb / 1024 * prices.task_gb_hour
    passed = 0.0 if gateways.direct else bytes_per_s * 3600 / GIB
    names = {"names": prices.hosted_zone_month} if gateways.direct else {}
    return {
        **names,
        "gateway tasks": gateways.tasks * task * hours,
        "load balancer": (prices.balancer_hour + passed * prices.balancer_capacity_hour) * hours,
        "across zones": passed * hours * (1 - 1 / gateways.zones) * prices.zone_gb,
    }
