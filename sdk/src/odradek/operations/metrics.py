"""The numbers of a running service, from /metrics (functions/metrics.py), and rates between two looks.

A deployed service keeps its numbers in CloudWatch; there, a look has the offsets and the lag only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from odradek.client.types import TopicDescription
from odradek.cost.prices import cost
from odradek.operations.cluster import Cluster
from odradek.ports.meter import Usage

_LINE = re.compile(r"(\w+)(?:\{(.*)\})? ([0-9.eE+-]+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_TIMEOUT_S = 5


@dataclass(frozen=True, slots=True)
class Numbers:
    """One look at /metrics; sums since the start of the service."""

    requests: Mapping[str, float]  # by API
    errors: Mapping[str, float]  # by Kafka error
    bytes_in: float
    bytes_out: float
    usage: Usage
    gauges: Mapping[str, float]  # tail_entries_max, unmerged_records, sweep_backlog_seconds ...
    lag: Mapping[str, float]  # by group


@dataclass(frozen=True, slots=True)
class Look:
    """Counts at one time."""

    at_ms: int
    records: int  # sum of the next offsets of all partitions
    by_topic: Mapping[str, int]
    numbers: Numbers | None = None


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates per second between two looks; None for those that the service lacks."""

    at_ms: int
    records: float
    by_topic: Mapping[str, float] = field(default_factory=dict)
    requests: float | None = None
    bytes_in: float | None = None
    bytes_out: float | None = None
    dollars_hour: float | None = None  # of requests and functions, at list prices
    lag: Mapping[str, float] = field(default_factory=dict)


def backlog_warnings(gauges: Mapping[str, float]) -> list[str]:
    """Return what `docs/OPERATIONS.md` says to look at."""
    found = []
    if gauges.get("tail_entries_max", 0) > 2_000:
        found.append(f"A tail has {gauges['tail_entries_max']:,.0f} entries: spills fail.")
    if gauges.get("sweep_backlog_seconds", 0) > 6 * 3600:
        found.append(f"The sweep is {gauges['sweep_backlog_seconds'] / 3600:.0f} hours behind: maintenance fails.")
    if gauges.get("groups_unmeasured", 0):
        found.append(
            f"The lag of {gauges['groups_unmeasured']:,.0f} groups is not measured: there are too many groups."
        )
    if gauges.get("unread", 0):
        found.append(f"{gauges['unread']:,.0f} topics or groups could not be read.")
    return found


async def look(cluster: Cluster, topics: Mapping[str, TopicDescription], now_ms: int) -> Look:
    """Look at the ends of all partitions, and at /metrics of a service on this machine. Raises KafkaError."""
    places = [each for topic in topics.values() for each in topic.partitions]
    ends = await cluster.admin.list_offsets(dict.fromkeys(places, "latest")) if places else {}
    by_topic = dict.fromkeys(topics, 0)
    for place, at in ends.items():
        by_topic[place.topic] += at.offset
    numbers = await read_numbers(cluster.address) if cluster.has_metrics else None
    return Look(now_ms, sum(by_topic.values()), by_topic, numbers)


async def read_numbers(address: str) -> Numbers | None:
    """Return the numbers of the embedded service at an address; None if it has no /metrics."""
    import aiohttp

    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S)) as session,
            session.get(f"{address.rstrip('/')}/metrics") as response,
        ):
            return parse_numbers(await response.text()) if response.status == 200 else None
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return None


def parse_numbers(text: str) -> Numbers:
    """Parse Prometheus text. Lines of other families are passed over."""
    requests: dict[str, float] = {}
    errors: dict[str, float] = {}
    transferred = {"in": 0.0, "out": 0.0}
    units: dict[str, float] = {}
    gauges: dict[str, float] = {}
    lag: dict[str, float] = {}
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        labels = {name: re.sub(r"\\(.)", r"\1", value) for name, value in _LABEL.findall(match[2] or "")}
        name, value = match[1].removeprefix("odradek_"), float(match[3])
        if name == "requests_total":
            requests[labels["api"]] = requests.get(labels["api"], 0.0) + value
        elif name == "request_errors_total":
            errors[labels["error"]] = errors.get(labels["error"], 0.0) + value
        elif name == "request_bytes_total":
            transferred[labels["direction"]] = transferred.get(labels["direction"], 0.0) + value
        elif name == "billable_total":
            units[labels["unit"]] = value
        elif name == "group_lag_records":
            lag[labels["group"]] = value
        elif not labels:
            gauges[name] = value
    known = {each.name for each in fields(Usage)}
    usage = Usage(**{name: value for name, value in units.items() if name in known})  # type: ignore[arg-type]
    return Numbers(requests, errors, transferred["in"], transferred["out"], usage, gauges, lag)


def rates(before: Look, after: Look) -> Rates:
    """Return what happened between two looks. A service that started again meanwhile counts from zero: no rate."""
    seconds = max((after.at_ms - before.at_ms) / 1000, 0.001)
    by_topic = {
        name: max(0, end - before.by_topic[name]) / seconds
        for name, end in after.by_topic.items()
        if name in before.by_topic
    }
    records = sum(by_topic.values())
    old, new = before.numbers, after.numbers
    if (
        old is None
        or new is None
        or new.bytes_in < old.bytes_in
        or sum(new.requests.values()) < sum(old.requests.values())
    ):
        return Rates(after.at_ms, records, by_topic, lag={} if new is None else new.lag)
    return Rates(
        after.at_ms,
        records,
        by_topic,
        (sum(new.requests.values()) - sum(old.requests.values())) / seconds,
        (new.bytes_in - old.bytes_in) / seconds,
        (new.bytes_out - old.bytes_out) / seconds,
        cost(new.usage - old.usage).total * 3600 / seconds,
        new.lag,
    )
