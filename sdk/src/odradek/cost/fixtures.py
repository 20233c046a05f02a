"""Fixed costs of a deployed stage, whatever is written: alarms, dashboard, the schedule, the queues' polls. Pure.

The counts are those of the templates; a test synthesizes them and compares. A stage has no custom metrics unless
something is wrong or its operator asks for them. Free tiers are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from odradek.cost.prices import US_EAST_1, PriceList

MONTH_S: Final = 730 * 3600
QUEUE_POLLS_PER_S: Final = 5 / 20  # of an idle event source mapping: 5 long polls of 20 s each (Lambda's documentation)


@dataclass(frozen=True, slots=True)
class Fixtures:
    """The resources of one stage that are billed by the month."""

    alarm_metrics: int  # metrics that alarms evaluate, each reference counted
    composite_alarms: int
    dashboards: int
    plan_every_minutes: int
    queues: int  # that Lambda polls: maintenance tasks, wake messages of triggers


FIXTURES: Final[Mapping[str, Fixtures]] = {
    "dev": Fixtures(alarm_metrics=3, composite_alarms=0, dashboards=0, plan_every_minutes=15, queues=2),
    "prod": Fixtures(alarm_metrics=32, composite_alarms=0, dashboards=0, plan_every_minutes=5, queues=2),
}


def fixed_cost(fixtures: Fixtures, prices: PriceList = US_EAST_1) -> Mapping[str, float]:
    """Return dollars per month, by component."""
    plans = MONTH_S / 60 / fixtures.plan_every_minutes
    return {
        "alarms": fixtures.alarm_metrics * prices.alarm_metric_month
        + fixtures.composite_alarms * prices.composite_alarm_month,
        "dashboard": fixtures.dashboards * prices.dashboard_month,
        "schedule": plans * prices.per_million_scheduled_events / 1e6,
        "queue polls": fixtures.queues * QUEUE_POLLS_PER_S * MONTH_S * prices.per_million_queue_requests / 1e6,
    }
