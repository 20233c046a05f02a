"""Planted bugs of streams groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from unittest.mock import patch

from odradek.engine.groups.state import GroupView, MemberState, StreamsMember
from odradek.engine.streams import decisions
from odradek.engine.streams.topology import ConfiguredTopology
from odradek.model.streams import Tasks

from tests.simulation.plan import Scenario
from tests.simulation.planted.bug import bug


def _with_standbys(scenario: Scenario) -> Scenario:
    return replace(scenario, streams_members=4, streams_standbys=1)


@bug("streams")
def task_that_is_taken_away() -> Iterator[None]:
    """A task goes to its next owner while the former one still runs it."""

    def given_up(streams: StreamsMember, reported: Tasks | None) -> Tasks:
        return streams.revoking

    with patch.object(decisions, "_given_up", given_up):
        yield


@bug("streams", change=_with_standbys)
def two_copies_in_one_process() -> Iterator[None]:
    """A task is granted to a process that still has a copy of it, in one state directory."""
    free = decisions._free

    def without_processes(wanted: Tasks, view: GroupView, member: MemberState, configured: ConfiguredTopology) -> Tasks:
        tasks = free(wanted, view, member, configured)
        return Tasks(tasks.active, wanted.standby, wanted.warmup)

    with patch.object(decisions, "_free", without_processes):
        yield
