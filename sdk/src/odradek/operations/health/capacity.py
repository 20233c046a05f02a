"""Provisioned capacity of a table: what a stage asks for, and whether the table has it and gets along with it.

    writes=2500-6000 reads=2500-6000 target=70     the output `LogTableCapacity` of a stack

Application Auto Scaling provisions what was used of late divided by the target, within the bounds. It acts after
minutes; until then DynamoDB lends what was left unused in the last five, and then it throttles.

The functions with a client ask AWS: `application-autoscaling:DescribeScalableTargets`, `cloudwatch:GetMetricData`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from odradek.cost.tables import TARGET_PERCENT

TARGET_PERCENT_MIN, TARGET_PERCENT_MAX = 20, 90  # that Application Auto Scaling takes for a table
_TEXT: Final = re.compile(r"writes=(\d+)-(\d+) reads=(\d+)-(\d+) target=(\d+)")
_PERIOD_S: Final = 300
_LOOKED_BACK: Final = timedelta(hours=1)
_RECENT_PERIODS: Final = 4
_METRICS: Final = (
    "ConsumedWriteCapacityUnits",
    "ConsumedReadCapacityUnits",
    "WriteThrottleEvents",
    "ReadThrottleEvents",
)
_DIMENSIONS: Final = {"writes": "dynamodb:table:WriteCapacityUnits", "reads": "dynamodb:table:ReadCapacityUnits"}


@dataclass(frozen=True, slots=True)
class TableCapacity:
    """The bounds of a table's provisioned units a second, both inclusive. Raises ValueError for impossible ones."""

    write_units_min: int  # of 1 KB; from 1
    write_units_max: int
    read_units_min: int  # of 4 KB; from 1
    read_units_max: int
    target_percent: int = TARGET_PERCENT  # of the provisioned units that are to be in use, 20 to 90

    def __post_init__(self) -> None:
        for name, (least, most) in self.bounds.items():
            if not 1 <= least <= most:
                raise ValueError(f"{name} must be from 1 unit a second up to no less, not {least}-{most}")
        if not TARGET_PERCENT_MIN <= self.target_percent <= TARGET_PERCENT_MAX:
            raise ValueError(
                f"target_percent must be {TARGET_PERCENT_MIN} to {TARGET_PERCENT_MAX}, not {self.target_percent}"
            )

    @property
    def bounds(self) -> Mapping[str, tuple[int, int]]:
        """The least and the most units a second, of "writes" and "reads"."""
        return {
            "writes": (self.write_units_min, self.write_units_max),
            "reads": (self.read_units_min, self.read_units_max),
        }

    def scalable(self, kind: str) -> float:
        """The use, in units a second, beyond which more than the maximum would have to be provisioned."""
        return self.bounds[kind][1] * self.target_percent / 100

    def __str__(self) -> str:
        bounds = (f"{kind}={least}-{most}" for kind, (least, most) in self.bounds.items())
        return f"{' '.join(bounds)} target={self.target_percent}"

    @classmethod
    def parse(cls, text: str) -> TableCapacity:
        """Return what `str` has written. Raises ValueError."""
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is no capacity of a table")
        return cls(*map(int, found.groups()))


@dataclass(frozen=True, slots=True)
class TableUse:
    """CloudWatch's metrics of a table."""

    used: Mapping[str, float]  # the most units a second in five minutes of the last twenty, of writes and reads
    throttled: float  # requests in the last hour


def faults_of_mode(table: Mapping[str, Any], capacity: TableCapacity | None) -> Iterator[str]:
    """Say whether a table bills as its stage says. Pure.

    Args:
        table: DynamoDB's description.
        capacity: None: on demand.
    """
    is_on_demand = table.get("BillingModeSummary", {}).get("BillingMode") == "PAY_PER_REQUEST"
    again = "deploy again, or run `odradek configure --stack` if the stage has changed"
    if capacity is None and not is_on_demand:
        yield f"has provisioned capacity, and its stage says on demand: a busy log will be throttled; {again}"
    if capacity is not None and is_on_demand:
        yield f"is on demand, and its stage says provisioned: each unit costs more than its share; {again}"


def faults_of_scaling(targets: Sequence[Mapping[str, Any]], capacity: TableCapacity) -> Iterator[str]:
    """Say what of a table scales otherwise than its stage says. Pure.

    Args:
        targets: Application Auto Scaling's description of the table's targets.
    """
    found = {each["ScalableDimension"]: (each["MinCapacity"], each["MaxCapacity"]) for each in targets}
    for kind, bounds in capacity.bounds.items():
        scaled = found.get(_DIMENSIONS[kind])
        if scaled is None:
            yield f"has {kind} that nothing scales: deploy again"
        elif scaled != bounds:
            least, most = scaled
            yield f"scales its {kind} from {least:,} to {most:,}, its stage says {bounds[0]:,} to {bounds[1]:,}"


def faults_of_use(use: TableUse, capacity: TableCapacity) -> Iterator[str]:
    """Say whether a table's load has outgrown its capacity. Pure."""
    for kind, used in use.used.items():
        if used > capacity.scalable(kind):
            yield (
                f"is at the maximum of its {kind}: {used:,.0f} units a second are {capacity.target_percent}% of more "
                f"than {capacity.bounds[kind][1]:,}; raise it"
            )
    if use.throttled:
        yield (
            f"throttled {use.throttled:,.0f} requests in the last hour: raise the minimum of its capacity above what "
            "the load needs at once, or make the table on demand"
        )


def read_scaling(autoscaling: Any, table_name: str) -> list[Mapping[str, Any]]:
    """Return the scalable targets of a table. Raises botocore's errors."""
    answer = autoscaling.describe_scalable_targets(ServiceNamespace="dynamodb", ResourceIds=[f"table/{table_name}"])
    return list(answer["ScalableTargets"])


def read_use(cloudwatch: Any, table_name: str, now: datetime) -> TableUse:
    """Return a table's use of late. Raises botocore's errors."""
    queries = [
        {
            "Id": f"m{number}",
            "MetricStat": {
                "Metric": {
                    "Namespace": "AWS/DynamoDB",
                    "MetricName": name,
                    "Dimensions": [{"Name": "TableName", "Value": table_name}],
                },
                "Period": _PERIOD_S,
                "Stat": "Sum",
            },
        }
        for number, name in enumerate(_METRICS)
    ]
    answer = cloudwatch.get_metric_data(
        MetricDataQueries=queries, StartTime=now - _LOOKED_BACK, EndTime=now, ScanBy="TimestampDescending"
    )
    recent = now - timedelta(seconds=_RECENT_PERIODS * _PERIOD_S)
    sums = {
        _METRICS[int(each["Id"][1:])]: list(zip(each["Timestamps"], each["Values"], strict=True))
        for each in answer["MetricDataResults"]
    }

    def most(name: str) -> float:
        return max((value for at, value in sums.get(name, ()) if at >= recent), default=0.0) / _PERIOD_S

    return TableUse(
        {"writes": most("ConsumedWriteCapacityUnits"), "reads": most("ConsumedReadCapacityUnits")},
        sum(value for name in ("WriteThrottleEvents", "ReadThrottleEvents") for _, value in sums.get(name, ())),
    )
