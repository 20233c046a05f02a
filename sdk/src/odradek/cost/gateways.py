"""What gateways cost beside what they ask of the stores: tasks on Fargate, and the load balancer with what passes it.
Pure. Clients and gateways are in the zones where they meet: traffic across zones is not counted.
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


def gateway_cost(gateways: Gateways, bytes_per_s: float, prices: PriceList = US_EAST_1) -> Mapping[str, float]:
    """Return dollars per month, by component.

    Args:
        bytes_per_s: what clients write and read through the balancer, together.
    """
    hours = MONTH_S / 3600
    task = gateways.cpu / 1024 * prices.task_vcpu_hour + gateways.memory_mb / 1024 * prices.task_gb_hour
    passed = bytes_per_s * 3600 / GIB
    return {
        "gateway tasks": gateways.tasks * task * hours,
        "load balancer": (prices.balancer_hour + passed * prices.balancer_capacity_hour) * hours,
    }
