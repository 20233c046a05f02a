"""Monthly cost of a workload, here and elsewhere: `odradek cost estimate` and the console's what-if."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from odradek.errors import ErrorCode, KafkaError

_SIZES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_SAVED_SHARE_MIN = 0.05
_TIMES = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


def parse_rate(text: str) -> float:
    """Parse bytes per second: "5MiB/s", or "0" for an idle stage. Raises KafkaError(INVALID_CONFIG)."""
    if text.strip() == "0":
        return 0.0
    found = re.fullmatch(r"\s*([\d.]+)\s*([a-z]*)\s*/\s*s\s*", text.lower())
    try:
        if found is not None and float(found[1]) > 0:
            return float(found[1]) * _SIZES[found[2]]
    except (ValueError, KeyError):
        pass
    raise KafkaError(ErrorCode.INVALID_CONFIG, f"invalid rate {text!r}: use 5MiB/s, 200kB/s or 1GiB/s")


def parse_time(text: str) -> float:
    """Parse seconds: "7d". Raises KafkaError(INVALID_CONFIG)."""
    found = re.fullmatch(r"\s*([\d.]+)\s*([a-z]+)\s*", text.lower())
    try:
        if found is not None:
            return float(found[1]) * _TIMES[found[2]]
    except (ValueError, KeyError):
        pass
    raise KafkaError(ErrorCode.INVALID_CONFIG, f"invalid time {text!r}: use 7d, 12h or 30m")


@dataclass(frozen=True, slots=True)
class Saving:
    """A change of one option, and what it saves."""

    change: str
    percent: int  # of the month's cost, rounded down
    dollars_month: float


def best_saving(dollars_month: float, choices: Mapping[str, float]) -> Saving | None:
    """Return the choice that costs least, or None if none saves a twentieth. Pure.

    Args:
        dollars_month: as it is.
        choices: dollars a month with an option changed, by the option.
    """
    change, least = min(choices.items(), key=lambda item: item[1], default=("", dollars_month))
    saved = dollars_month - least
    if saved < _SAVED_SHARE_MIN * dollars_month or saved <= 0:
        return None
    return Saving(change, int(100 * saved / dollars_month), round(saved, 2))


@dataclass(frozen=True, slots=True)
class LingerCost:
    """Dollars a month with one linger of the producers."""

    linger_ms: float
    requests_per_s: float
    request_bytes: int
    dollars_month: Mapping[str, float]  # by component

    @property
    def total(self) -> float:
        return sum(self.dollars_month.values())


@dataclass(frozen=True, slots=True)
class Estimate:
    """The monthly cost of a workload."""

    written_gib_month: float
    kept_gib: float
    region: str
    prices_of: tuple[str, ...]  # dates of the price lists
    odradek: tuple[LingerCost, ...]
    others: Mapping[str, float]


async def estimate(
    rate: float,
    *,
    record_bytes: int = 1024,
    producers: int = 1,
    consumers: int = 1,
    retention_s: float = 7 * 86_400,
    partitions: int = 16,
    keep_deleted_s: float = 0,
    lingers_ms: Sequence[float] = (5.0, 100.0, 1000.0),
) -> Estimate:
    """Estimate from requests counted in a short run of the engine, and dated list prices.

    Args:
        rate: bytes written per second.
    """
    from odradek.cost.measure import measure
    from odradek.cost.model import Workload, own_cost, peer_costs, with_linger
    from odradek.cost.prices import PEERS_US_EAST_1, US_EAST_1

    load = Workload(
        rate, record_bytes, producers, consumers, retention_s, partitions=partitions, keep_deleted_s=keep_deleted_s
    )
    lines = []
    for linger_ms in lingers_ms:
        each = with_linger(load, linger_ms)
        dollars = own_cost(each, await measure(each))
        lines.append(LingerCost(linger_ms, each.requests_per_s, each.request_bytes, dollars))
    return Estimate(
        load.gb_month,
        load.kept_gb,
        US_EAST_1.region,
        tuple(sorted({US_EAST_1.date, PEERS_US_EAST_1.date})),
        tuple(lines),
        dict(peer_costs(load)),
    )
