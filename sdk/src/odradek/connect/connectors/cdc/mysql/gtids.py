"""Sets of global transaction ids (GTIDs): which transactions were read, on whichever server of a topology.

    MySQL     3E11FA47-71CA-11E1-9E33-C80AA9429562:1-5:7, ...    intervals of numbers by source
    MariaDB   0-1-15,1-2-3                                       domain-server-number: the last one of each domain

Source: MySQL's "GTID Format and Storage", MariaDB's "Global Transaction ID".
"""

from __future__ import annotations

from typing import Protocol


class Gtids(Protocol):
    """The transactions that were read."""

    def add(self, gtid: str) -> None:
        """Add one transaction."""
        ...

    def has(self, gtid: str) -> bool:
        """Return whether a transaction was read."""
        ...

    def covers(self, other: str) -> bool:
        """Return whether all transactions of another set, as text, were read."""
        ...


class MySqlGtids:
    """A set as MySQL writes it. Raises ValueError for another text."""

    def __init__(self, text: str) -> None:
        self._intervals: dict[str, list[tuple[int, int]]] = {}  # closed, ascending, not adjacent
        for part in filter(None, (part_text.strip() for part_text in text.split(","))):
            source, *intervals = part.split(":")
            for interval in intervals:
                first, _, last = interval.partition("-")
                self._add(source.lower(), int(first), int(last or first))

    def _add(self, source: str, first: int, last: int) -> None:
        kept = []
        for low, high in self._intervals.get(source, []):
            if high + 1 < first or last + 1 < low:
                kept.append((low, high))
            else:
                first, last = min(first, low), max(last, high)
        self._intervals[source] = sorted([*kept, (first, last)])

    def add(self, gtid: str) -> None:
        source, _, number = gtid.rpartition(":")
        self._add(source.lower(), int(number), int(number))

    def has(self, gtid: str) -> bool:
        source, _, number = gtid.rpartition(":")
        return self._has(source.lower(), int(number), int(number))

    def _has(self, source: str, first: int, last: int) -> bool:
        return any(low <= first and last <= high for low, high in self._intervals.get(source, []))

    def covers(self, other: str) -> bool:
        return all(
            self._has(source, first, last)
            for source, intervals in MySqlGtids(other)._intervals.items()
            for first, last in intervals
        )

    def __str__(self) -> str:
        return ",".join(
            ":".join([source, *(str(low) if low == high else f"{low}-{high}" for low, high in intervals)])
            for source, intervals in sorted(self._intervals.items())
        )


class MariaDbGtids:
    """A position as MariaDB writes it. Raises ValueError for another text."""

    def __init__(self, text: str) -> None:
        self._last: dict[int, tuple[int, str]] = {}
        for part in filter(None, (part_text.strip() for part_text in text.split(","))):
            self.add(part)

    @staticmethod
    def _parts(gtid: str) -> tuple[int, int]:
        domain, _server, number = gtid.split("-")
        return int(domain), int(number)

    def add(self, gtid: str) -> None:
        domain, number = self._parts(gtid)
        if not self.has(gtid):
            self._last[domain] = number, gtid

    def has(self, gtid: str) -> bool:
        domain, number = self._parts(gtid)
        return domain in self._last and number <= self._last[domain][0]

    def covers(self, other: str) -> bool:
        return all(self.has(gtid) for _, gtid in MariaDbGtids(other)._last.values())

    def __str__(self) -> str:
        return ",".join(gtid for _, (_, gtid) in sorted(self._last.items()))


def gtids(text: str, *, is_mariadb: bool) -> Gtids | None:
    """Return the set of a text, or None for one that is not understood, such as one with MySQL's tags."""
    try:
        return MariaDbGtids(text) if is_mariadb else MySqlGtids(text)
    except ValueError:
        return None
