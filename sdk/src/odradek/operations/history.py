"""The past in a series of looks: the lag of groups over time, and cost by hour and topic. Pure.

The meter counts units of the whole service, not of topics. An hour's cost is shared between the topics by the records
that were written to them, which is near the truth where records are of similar size; storage is exact by topic.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from odradek.cost.prices import GB_MONTH, US_EAST_1, cost
from odradek.operations.metrics import Look
from odradek.ports.meter import Usage

HOUR_MS = 3_600_000
_HOURS_KEPT = 72
_POINTS_KEPT = 1_440  # of a group: a day of minutes
_GROUPS_KEPT = 500
_EVERY_MS = 10_000  # at least, between two points of a group


@dataclass(slots=True)
class Hour:
    """An hour of the service, as far as it was watched."""

    start_ms: int
    watched_ms: int = 0
    records: int = 0
    bytes_in: float = 0.0
    bytes_out: float = 0.0
    usage: Usage = field(default_factory=Usage)
    by_topic: dict[str, int] = field(default_factory=dict)  # records written

    @property
    def dollars(self) -> float:
        """Requests and functions at list prices, without storage."""
        return cost(self.usage).total

    @property
    def components(self) -> Mapping[str, float]:
        """Dollars by what is billed."""
        return cost(self.usage).components

    def share(self, topic: str) -> float:
        """Return the dollars of a topic: its part of the records."""
        return self.dollars * self.by_topic.get(topic, 0) / self.records if self.records else 0.0


class History:
    """Lag and cost, as far as they were watched."""

    def __init__(self) -> None:
        self._lag: dict[str, deque[tuple[int, int]]] = {}
        self._hours: deque[Hour] = deque(maxlen=_HOURS_KEPT)

    def add(self, before: Look, after: Look) -> None:
        """Take in what happened between two looks."""
        if after.numbers is not None:
            for group, lag in after.numbers.lag.items():
                self.note_lag(group, after.at_ms, int(lag))
        old, new = before.numbers, after.numbers
        if old is None or new is None or new.bytes_in < old.bytes_in or after.at_ms <= before.at_ms:
            return
        hour = self._hour(after.at_ms)
        hour.watched_ms += after.at_ms - before.at_ms
        hour.bytes_in += new.bytes_in - old.bytes_in
        hour.bytes_out += max(0.0, new.bytes_out - old.bytes_out)
        hour.usage = hour.usage + (new.usage - old.usage)
        for name, end in after.by_topic.items():
            written = max(0, end - before.by_topic.get(name, 0))
            if written:
                hour.records += written
                hour.by_topic[name] = hour.by_topic.get(name, 0) + written

    def _hour(self, at_ms: int) -> Hour:
        start_ms = at_ms // HOUR_MS * HOUR_MS
        if not self._hours or self._hours[-1].start_ms != start_ms:
            self._hours.append(Hour(start_ms))
        return self._hours[-1]

    def note_lag(self, group: str, at_ms: int, lag: int) -> None:
        """Remember the lag of a group at a time."""
        points = self._lag.get(group)
        if points is None:
            if len(self._lag) >= _GROUPS_KEPT:
                stalest = min(self._lag, key=lambda each: self._lag[each][-1][0])
                del self._lag[stalest]
            points = self._lag[group] = deque(maxlen=_POINTS_KEPT)
        if not points or at_ms - points[-1][0] >= _EVERY_MS:
            points.append((at_ms, lag))

    def lag_of(self, group: str) -> list[tuple[int, int]]:
        """Return times in ms and lags of a group, the oldest first."""
        return list(self._lag.get(group, ()))

    def hours(self) -> list[Hour]:
        """Return the hours that were watched, the newest first."""
        return list(reversed(self._hours))

    def topics(self) -> dict[str, float]:
        """Return the dollars of each topic over all hours, the dearest first."""
        found: dict[str, float] = {}
        for hour in self._hours:
            for topic in hour.by_topic:
                found[topic] = found.get(topic, 0.0) + hour.share(topic)
        return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))


def storage_dollars_month(size_bytes: int) -> float:
    """Return what bytes in S3 cost a month at list price."""
    return size_bytes / GB_MONTH * US_EAST_1.object_gb_month
