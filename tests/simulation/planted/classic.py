"""Planted bugs of groups of the classic protocol."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from unittest.mock import patch

from odradek.engine.classic import decisions as classic_decisions
from odradek.engine.classic import groups as classic_groups
from odradek.engine.classic.decisions import SyncStep
from odradek.engine.groups.classic_items import KIND
from odradek.engine.groups.items import group_key
from odradek.engine.offsets import classic as classic_offsets
from odradek.model.classic_group import ClassicGroup, ClassicSync, ClassicSyncResult
from odradek.ports.table import Check, Compare, Exists

from tests.simulation.plan import Scenario
from tests.simulation.planted.bug import bug
from tests.simulation.store.ports import Fates


def _restless(scenario: Scenario) -> Scenario:
    """Members that stall for longer than their sessions, while others go on."""
    settings = {**scenario.settings, "group_session_timeout_ms": 3_000, "group_initial_rebalance_delay_ms": 0}
    fates = Fates(stall=0.01, stalls_s=(5.0, 30.0), late=0.03)
    return replace(scenario, classic_members=4, group_turns=60, fates=fates, settings=settings)


@bug("classic", change=_restless, seeds=20)
def commit_of_a_former_generation() -> Iterator[None]:
    """A commit asks whether the group is there, not for its generation and members."""

    def fence(group_id: str, *_: object) -> Check:
        return Check(group_key(group_id), Compare(("k",), "=", KIND))

    with patch.object(classic_offsets, "fence", fence):
        yield


@bug("classic", change=_restless)
def group_written_without_its_version() -> Iterator[None]:
    """Of two that complete a round each makes a generation of its own."""
    with patch.object(classic_groups, "Compare", lambda *_: Exists(("v",))):
        yield


@bug("classic", change=_restless)
def follower_that_does_not_wait() -> Iterator[None]:
    """Until the leader has assigned, members are told what they had before."""
    sync, complete = classic_groups.decide_sync, classic_decisions.complete_round

    def complete_round(group: ClassicGroup) -> ClassicGroup:
        before = {member.member_id: member.assignment for member in group.members}
        after = complete(group)
        return replace(
            after, members=tuple(replace(member, assignment=before[member.member_id]) for member in after.members)
        )

    def decide_sync(group: ClassicGroup, request: ClassicSync) -> SyncStep:
        step = sync(group, request)
        if step.group is not None or step.answer is not None:
            return step
        member = group.member(request.identity.member_id)
        return SyncStep(answer=ClassicSyncResult(assignment=member.assignment if member is not None else b""))

    with (
        patch.object(classic_groups, "decide_sync", decide_sync),
        patch.object(classic_decisions, "complete_round", complete_round),
    ):
        yield
