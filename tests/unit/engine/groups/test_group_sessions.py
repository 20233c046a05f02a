"""When a silent member may be removed: by watching, hardly by clocks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from odradek.engine.groups.sessions import alive, elapsed_ms, expired, look, next_expiry_ms, seems_dead
from odradek.engine.groups.state import GroupView, MemberState, Watch

NOW_MS = 1_000_000
WATCHER = MemberState("w", session_ms=45_000, interval_ms=5_000, renewed_ms=NOW_MS - 5_000)
SILENT = MemberState("s", version=9, session_ms=45_000, interval_ms=5_000, renewed_ms=NOW_MS - 12_000)


def view(*members: MemberState) -> GroupView:
    return GroupView("g", None, {member.member_id: member for member in members})


@pytest.mark.parametrize(
    ("ago_ms", "counted_ms"), [(0, 0), (4_000, 4_000), (10_000, 10_000), (3_600_000, 10_000), (-9, 0)]
)
def test_one_look_counts_two_intervals_at_most(ago_ms: int, counted_ms: int) -> None:
    assert elapsed_ms(replace(WATCHER, renewed_ms=NOW_MS - ago_ms), NOW_MS) == counted_ms


def test_watching_starts_with_what_the_clock_says_goes_on_and_starts_again_with_a_new_version() -> None:
    first = look(WATCHER, view(WATCHER, SILENT), NOW_MS)
    assert first == {"s": Watch(9, 10_000)}  # of 12 s, as far as one look counts
    watcher = replace(WATCHER, watches=first)
    assert look(watcher, view(watcher, SILENT), NOW_MS) == {"s": Watch(9, 15_000)}
    renewed = replace(SILENT, version=10, renewed_ms=NOW_MS - 6_000)
    assert look(watcher, view(watcher, renewed), NOW_MS) == {"s": Watch(10, 6_000)}
    assert look(watcher, view(watcher, replace(renewed, renewed_ms=NOW_MS + 9_000)), NOW_MS) == {"s": Watch(10, 0)}


def test_the_next_expiry_is_that_of_the_session_that_ends_first() -> None:
    other = replace(SILENT, member_id="o", session_ms=20_000)
    members = {"w": WATCHER, "s": SILENT, "o": other}
    assert next_expiry_ms(WATCHER, members) is None
    watches = {"s": Watch(9, 44_000), "o": Watch(1, 10_000), "gone": Watch(1, 99_000)}
    assert next_expiry_ms(replace(WATCHER, watches=watches), members) == 1_000
    assert next_expiry_ms(replace(WATCHER, watches={"s": Watch(9, 50_000)}), members) == 0


@pytest.mark.parametrize("renewed_ms", [NOW_MS - 5_001, NOW_MS + 5_001])
def test_late_is_late_in_either_direction(renewed_ms: int) -> None:
    assert "s" in look(WATCHER, view(WATCHER, replace(SILENT, renewed_ms=renewed_ms)), NOW_MS)


def test_nobody_is_watched_who_is_in_time() -> None:
    in_time = replace(SILENT, renewed_ms=NOW_MS - 5_000)
    assert look(replace(WATCHER, watches={"s": Watch(9, 40_000)}), view(WATCHER, in_time), NOW_MS) == {}


@pytest.mark.parametrize(
    ("elapsed", "silent_ms", "is_gone"),
    [
        (44_999, 50_000, False),
        (45_000, 50_000, True),
        (45_000, -3_600_000, True),  # renewed by a machine whose clock is ahead
        (19_999, 3_600_000, False),  # dead by the clock alone is not enough
        (20_000, 3_600_000, True),
        (20_000, 89_999, False),
    ],
)
def test_a_session_ends_by_watching_or_long_silence(elapsed: int, silent_ms: int, is_gone: bool) -> None:
    silent = replace(SILENT, renewed_ms=NOW_MS - silent_ms)
    watches = {"s": Watch(9, elapsed)}
    assert expired(view(WATCHER, silent), watches, NOW_MS, 5_000) == ([silent] if is_gone else [])


def test_dead_by_the_clock_after_two_sessions() -> None:
    assert not seems_dead(replace(SILENT, renewed_ms=NOW_MS - 89_999), NOW_MS)
    assert seems_dead(replace(SILENT, renewed_ms=NOW_MS - 90_000), NOW_MS)


def test_for_administration_a_member_is_there_for_one_session() -> None:
    assert alive([replace(SILENT, renewed_ms=NOW_MS - 44_999)], NOW_MS)
    assert not alive([replace(SILENT, renewed_ms=NOW_MS - 45_000)], NOW_MS)
