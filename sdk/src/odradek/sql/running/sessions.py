"""Sessions of one group, record by record in the order of arrival: Kafka Streams' rules. Pure.

A record joins the sessions within the gap of its time that are still open, and makes one of them all. It is late only
if what it would make is: if that ended so long before stream time that gap and grace period are over. So a record older
than that is kept where it touches a session that is open.

    gap 10, grace 5     record       10      16       0            30
                        sessions     10-10   10-16    0-16         30-30       0 is within the gap of 10
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Session:
    start: int
    end: int
    members: list[int] = field(default_factory=list)


def placed(records: Iterable[tuple[int, int]], gap_ms: int, grace_ms: int) -> list[int | None]:
    """Return the number of each record's session; None for a late record, which has none.

    Args:
        records: time and stream time at it, ms, in the order of arrival.
    """
    sessions: list[_Session] = []  # those that may still be open
    closed: list[_Session] = []
    found: list[int | None] = []
    for number, (time, stream_ms) in enumerate(records):
        found.append(None)
        limit = stream_ms - gap_ms - grace_ms
        closed += [each for each in sessions if each.end <= limit]
        sessions = [each for each in sessions if each.end > limit]
        touched = [each for each in sessions if each.start <= time + gap_ms and each.end >= time - gap_ms]
        if max([time, *(each.end for each in touched)]) < limit:
            continue
        whole = _Session(time, time, [number])
        for each in touched:
            whole.start, whole.end = min(whole.start, each.start), max(whole.end, each.end)
            whole.members += each.members
        sessions = [*(each for each in sessions if each not in touched), whole]
    for place, session in enumerate([*closed, *sessions]):
        for member in session.members:
            found[member] = place
    return found
