"""Planted bugs of consumer groups and committed offsets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from unittest.mock import patch

from odradek.engine.groups import decisions as group_decisions
from odradek.engine.groups import store as group_store
from odradek.engine.offsets import decisions as offset_decisions
from odradek.ports.table import Exists

from tests.simulation.plan import Scenario
from tests.simulation.planted.bug import bug
from tests.simulation.store.ports import Fates

_SESSION = {"group_session_timeout_ms": 3_000}
_TRUE = Exists(("v",))


def _busy_group(scenario: Scenario) -> Scenario:
    """Members that stall longer than their session, over and over."""
    return replace(scenario, fates=Fates(stall=0.03), group_members=3, settings={**scenario.settings, **_SESSION})


@bug("groups", change=_busy_group, seeds=20)
def commit_of_a_former_owner() -> Iterator[None]:
    """A commit is taken from whoever sends it."""
    with patch.object(offset_decisions, "_may_commit", lambda slot, committer: (_TRUE,)):
        yield


def _late_commits(scenario: Scenario) -> Scenario:
    """Members that stay, and commits that arrive after later ones."""
    return replace(scenario, fates=Fates(crash=0, stall=0, late=0.15), group_turns=40)


@bug("rebalance")
def target_that_stands_for_ever() -> Iterator[None]:
    """Members that join or leave after a target was computed are never assigned for."""
    with patch.object(group_decisions, "stands_for_ms", lambda group, now_ms: int(group.epoch > 0)):
        yield


@bug("rebalance", seeds=20)
def member_told_by_its_version_alone() -> Iterator[None]:
    """A heartbeat of a member that was removed and has joined again puts back what it had in its former life."""
    with patch.object(group_store, "_is_as_read", lambda member: group_store._is_version(member.version)):
        yield


@bug("groups", change=_late_commits)
def commit_without_a_stamp() -> Iterator[None]:
    """A commit that arrives late puts back an older offset."""
    with patch.object(offset_decisions, "_is_newer", lambda slot, stamp_ms: _TRUE):
        yield
