"""The units of the tables, priced on demand or as provisioned capacity. Pure.

    on demand      each unit by its price
    provisioned    of the log table: so much capacity that the target of it is in use, every hour of the month; at least
                   one unit each. The other tables stay on demand

Provisioned assumes a steady load: the same every hour, and within an hour never more than the mean divided by the
target for longer than what was unused in the last five minutes lasts. A load with quiet nights costs less than that,
because the capacity follows it, and one with short peaks costs more, because its minimum must hold them.

The function that uses units tells which table they belong to. The coordinator alone writes groups, and 99% of
the writes and reads of a busy topic are others' (docs/decisions/0076). Their few reads of the catalog, which every
process caches, are counted with the log.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from odradek.cost.fixtures import MONTH_S
from odradek.cost.prices import US_EAST_1, PriceList
from odradek.ports.meter import Usage

TARGET_PERCENT: Final = 70  # of provisioned units that are to be in use: the default of a stage
SCALING_ALARM_METRICS: Final = 2 * 4  # of the alarms by which Application Auto Scaling scales writes and reads
ALARM_METRICS: Final = 2  # of `tables-at-maximum`, for one table
_OF_OTHER_TABLES: Final = frozenset({"coordinator"})


class TableMode(StrEnum):
    """How the log table is billed."""

    ON_DEMAND = "on-demand"
    PROVISIONED = "provisioned"


def provisioned_cost(by_function: Mapping[str, Usage], prices: PriceList = US_EAST_1) -> Mapping[str, float]:
    """Return what the units of a month cost with a provisioned log table: dollars of table writes and reads.

    Args:
        by_function: the units of a month.
    """
    log, others = Usage(), Usage()
    for function, used in by_function.items():
        if function in _OF_OTHER_TABLES:
            others += used
        else:
            log += used
    hours = MONTH_S / 3600
    return {
        "table writes": _capacity(log.table_write_units) * hours * prices.table_write_capacity_hour
        + others.table_write_units * prices.per_million_table_write_units / 1e6,
        "table reads": _capacity(log.table_read_units) * hours * prices.table_read_capacity_hour
        + others.table_read_units * prices.per_million_table_read_units / 1e6,
    }


def provisioned_alarms(prices: PriceList = US_EAST_1) -> float:
    """Return the dollars a month of the alarms that one provisioned table adds."""
    return (SCALING_ALARM_METRICS + ALARM_METRICS) * prices.alarm_metric_month


def _capacity(units: float) -> int:
    """Return the units a second to provision for a number of units a month."""
    return max(1, math.ceil(round(units / MONTH_S * 100 / TARGET_PERCENT, 6)))
