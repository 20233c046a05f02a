"""The expiry of a silent member's session in a classic group.

A session is a counter that every heartbeat raises. A process that serves a group remembers each counter and since when,
by its own monotonic clock, it has not changed; a member whose counter has not changed for its whole session has
expired. Clocks of different machines are compared only where a watch begins, and a process that was stalled has seen
nothing and removes no member. The other members' requests make the observations; after a crash the next gateway
observes from the beginning, which is the last heartbeat, or at most `LOOK_MS` or a quarter of the session ago, by the
clock.

A member that by the clock has been silent for two sessions is removed after a short observation (`LOOK_MS`, beside what
the clock says at the first look), so that the first member of a group whose members died long ago need not wait. A
member that was removed in error receives UNKNOWN_MEMBER_ID and joins again; none of its commits is accepted in between.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from odradek.engine.groups.sessions import CREDIT_DIVISOR, classic_seems_dead
from odradek.model.classic_group import ClassicGroup, ClassicSession
from odradek.ports.clock import Clock

LOOK_MS = 3_000  # Kafka's default heartbeat interval
_GROUPS_MAX = 10_000


class SessionWatch:
    """The sessions of the groups that this process serves, as it has seen them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # By group and member: the counter and since when it stands; the group seen longest ago comes first.
        self._seen: OrderedDict[str, dict[str, tuple[int, float]]] = OrderedDict()

    def expired(self, group_id: str, group: ClassicGroup, sessions: Mapping[str, ClassicSession]) -> list[str]:
        """The members whose sessions are over, this look included."""
        now_s, now_ms = self._clock.monotonic(), self._clock.now_ms()
        before = self._seen.pop(group_id, {})
        seen: dict[str, tuple[int, float]] = {}
        gone = []
        for member in group.members:
            session = sessions.get(
                member.member_id, ClassicSession(0, now_ms)
            )  # not written yet: not dead by the clock
            counter, since_s = before.get(member.member_id, (-1, now_s))
            if counter != session.counter:
                credit_ms = min(LOOK_MS, member.session_ms // CREDIT_DIVISOR)
                since_s = now_s - min(max(now_ms - session.renewed_ms, 0), credit_ms) / 1000
            seen[member.member_id] = session.counter, since_s
            still_ms = (now_s - since_s) * 1000
            is_long_dead = classic_seems_dead(member, session, now_ms) and still_ms >= min(
                2 * LOOK_MS, member.session_ms
            )
            if still_ms >= member.session_ms or is_long_dead:
                gone.append(member.member_id)
        if seen:
            self._seen[group_id] = seen
            if len(self._seen) > _GROUPS_MAX:
                self._seen.popitem(last=False)
        return gone
