"""Sessions: when a silent member may be removed. Pure.

**Theory of operation.** A session is a lease with a duration and a version counter. Each heartbeat of a member raises
the member's version; the same write stores, at no further cost, what this member *watches*: for each other member that
seems late, the version seen and how long it has not changed. A member is removed when some other member has watched one
and the same version for the whole session duration. So a member that renews is never removed, however far clocks are
apart: its version changes and every watch starts again. After an outage of the table nobody is removed either, since no
member was watching. A watch begins with the time since the last heartbeat by the clock, as far as one look may count
it, and a quarter of the session at most; a watcher is asked back when a session that it watches is about to end.

**What rests on clocks: liveness only.** Functions are stateless and one watch is continued by many machines, so the
time between two looks is the difference of two machines' clocks, cut to [0, twice the interval that the watcher was
asked to keep]. A clock that is hours ahead thus adds two intervals a look at most, one that is behind adds nothing.
At worst a silent member is removed after half its session, or a dead one twice as late. A member removed in error is
fenced by its leases, learns it from its next heartbeat (UNKNOWN_MEMBER_ID) and joins again: no commit of it is
accepted in between.

**The long dead.** A member that by the clock has been silent for two sessions, and was seen silent for two
intervals, is removed then: a group whose members all died yesterday should not make today's first member wait a
session. Administration (DeleteGroups, DescribeGroups, commits by simple consumers) has no watcher and goes by the clock
alone: a member counts for one session after its last heartbeat, as on Apache Kafka. So does a static member's
successor: whoever starts a second process under one instance id means to replace the first. These are the places where
skew beyond a session matters, and there too only for liveness.

Late means: not renewed within its own interval by the reader's clock, in either direction, so that a clock ahead
cannot hide a dead member. In a healthy group no member is late and no watch is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from odradek.engine.groups.state import GroupView, MemberState, Watch
from odradek.limits import GROUP_WATCH_BYTES, GROUP_WATCHES_BYTES_MAX
from odradek.model.classic_group import ClassicGroup, ClassicMember, ClassicSession

LONG_DEAD_SESSIONS = 2
LONG_DEAD_INTERVALS = 4  # two that were watched, beside what the clock says at the first look
ELAPSED_INTERVALS_MAX = 2  # what one look can add
CREDIT_DIVISOR = 4  # of a session, that a watch may begin with at most


def elapsed_ms(member: MemberState, now_ms: int) -> int:
    """Time since the member's last heartbeat as far as its next one may count it."""
    return min(max(now_ms - member.renewed_ms, 0), ELAPSED_INTERVALS_MAX * member.interval_ms)


def look(watcher: MemberState, view: GroupView, now_ms: int) -> dict[str, Watch]:
    """Return the watcher's observations of the late members, including this one.

    If all are late, after an outage, and their ids are long, one item cannot hold all of them: each member watches
    those whose ids come next.
    """
    passed_ms = elapsed_ms(watcher, now_ms)
    watches: dict[str, Watch] = {}
    room = GROUP_WATCHES_BYTES_MAX
    late = [each for each in view.members.values() if each is not watcher and _is_late(each, now_ms)]
    for member in sorted(late, key=lambda each: (each.member_id <= watcher.member_id, each.member_id)):
        if member.member_id == watcher.member_id:
            continue
        room -= len(member.member_id.encode()) + GROUP_WATCH_BYTES
        if room < 0:
            break
        before = watcher.watches.get(member.member_id)
        is_known = before is not None and before.version == member.version
        seen_ms = before.elapsed_ms + passed_ms if before is not None and is_known else _credit_ms(member, now_ms)
        watches[member.member_id] = Watch(member.version, seen_ms)
    return watches


def _credit_ms(member: MemberState, now_ms: int) -> int:
    """Time since the last heartbeat that a watch begins with: no clock that is wrong ends a session by it."""
    return min(elapsed_ms(member, now_ms), member.session_ms // CREDIT_DIVISOR)


def next_expiry_ms(watcher: MemberState, members: Mapping[str, MemberState]) -> int | None:
    """Return the time in ms until the first session that a member watches is over; None: it watches nobody."""
    left = [
        members[member_id].session_ms - watch.elapsed_ms
        for member_id, watch in watcher.watches.items()
        if member_id in members
    ]
    return max(0, min(left)) if left else None


def expired(view: GroupView, watches: Mapping[str, Watch], now_ms: int, interval_ms: int) -> list[MemberState]:
    """Return the members that have expired by these watches, in the order of their ids."""
    gone = []
    for member_id, watch in sorted(watches.items()):
        member = view.members[member_id]
        is_long_dead = watch.elapsed_ms >= LONG_DEAD_INTERVALS * interval_ms and seems_dead(member, now_ms)
        if watch.elapsed_ms >= member.session_ms or is_long_dead:
            gone.append(member)
    return gone


def seems_dead(member: MemberState, now_ms: int) -> bool:
    """Return True if the member, by the clock alone, has been silent for two sessions."""
    return now_ms - member.renewed_ms >= LONG_DEAD_SESSIONS * member.session_ms


def has_expired(member: MemberState, now_ms: int) -> bool:
    """Return True if the member, by the clock alone, has been silent for one session, so that it may be succeeded."""
    return now_ms - member.renewed_ms >= member.session_ms


def alive(members: Iterable[MemberState], now_ms: int) -> list[MemberState]:
    """The members whose sessions are not over by the clock: what administration sees."""
    return [member for member in members if not has_expired(member, now_ms)]


def classic_seems_dead(member: ClassicMember, session: ClassicSession, now_ms: int) -> bool:
    """As `seems_dead`, of a classic member."""
    return now_ms - session.renewed_ms >= LONG_DEAD_SESSIONS * member.session_ms


def classic_alive(group: ClassicGroup, sessions: Mapping[str, ClassicSession], now_ms: int) -> list[ClassicMember]:
    """As `alive`, of a classic group. A session that is not written yet is not dead by the clock."""
    return [
        member
        for member in group.members
        if now_ms - sessions.get(member.member_id, ClassicSession(0, now_ms)).renewed_ms < member.session_ms
    ]


def _is_late(member: MemberState, now_ms: int) -> bool:
    return abs(now_ms - member.renewed_ms) > member.interval_ms or member.session_ms == 0
