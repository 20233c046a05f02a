"""Consumer groups: heartbeats by KIP-848's decisions; listing, describing and deleting groups of every kind.

A heartbeat of a stable group is one Query and one PutItem. One that joins, leaves or moves partitions is a
transaction or two. A target is kept for `consumer.assignment.interval.ms` before the next is computed. There is no
barrier: each member reconciles at its own heartbeats, and leases keep two members from one partition
(groups/decisions.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from odradek.engine.catalog.topics import Topics
from odradek.engine.groups import admin as group_admin
from odradek.engine.groups.configs import GroupConfigs
from odradek.engine.groups.decisions import (
    Circumstances,
    Transition,
    decide_continuation,
    decide_heartbeat,
    group_of,
)
from odradek.engine.groups.growth_holds import GrowthHolds
from odradek.engine.groups.heartbeats import Heartbeats
from odradek.engine.groups.requests import check_heartbeat
from odradek.engine.groups.state import GroupView, union
from odradek.engine.groups.store import GroupStore
from odradek.engine.groups.topics import SubscribedTopics
from odradek.engine.tools import Tools
from odradek.errors import ErrorCode, KafkaError
from odradek.model.group import GroupDescription, GroupHeartbeat, GroupHeartbeatResult, GroupListing
from odradek.ports.clock import Clock
from odradek.settings import Settings

# A method is named `list`, so inside the class the type needs another name.
_Listings = list[GroupListing]
_Descriptions = list[GroupDescription]
_Deletions = list[tuple[str, ErrorCode]]

_OTHER_CLIENTS = {"share": "a share consumer", "streams": "Kafka Streams with group.protocol=streams"}


class Groups:
    """KIP-848's group coordinator over the groups table.

    Args:
        holds: what groups do not get yet.
        delete_share_items: what deleting a share group takes with it.
    """

    def __init__(
        self,
        tools: Tools,
        topics: Topics,
        configs: GroupConfigs,
        holds: GrowthHolds,
        delete_share_items: group_admin.DeleteItems,
    ) -> None:
        clock, settings = tools.clock, tools.settings
        self._tools = tools
        self._store = GroupStore(tools.tables.groups)
        self._clock = clock
        self._delete_share_items = delete_share_items
        protocol = ConsumerHeartbeats(SubscribedTopics(topics, clock, settings), configs, holds, clock, settings)
        self._heartbeats = Heartbeats(self._store, protocol, clock, tools.rng, settings)

    async def heartbeat(self, request: GroupHeartbeat) -> GroupHeartbeatResult:
        """Join, live on or leave; the answer says epoch, assignment and when to come back. Failures are results.

        Errors: INVALID_GROUP_ID, INVALID_REQUEST, UNSUPPORTED_ASSIGNOR, INVALID_REGULAR_EXPRESSION,
        GROUP_MAX_SIZE_REACHED, UNRELEASED_INSTANCE_ID (give up), UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH (drop all
        partitions, join again), FENCED_INSTANCE_ID (another process has this place), COORDINATOR_NOT_AVAILABLE (send
        the whole heartbeat again).
        """
        return await self._heartbeats.heartbeat(request)

    async def list(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> _Listings:
        """All groups in the order of their ids, or those of the given states and types. Raises KafkaError."""
        return await group_admin.list_groups(self._store, self._clock.now_ms(), states, types)

    async def describe(self, group_ids: Sequence[str]) -> _Descriptions:
        """Return the groups in the order of the ids; a missing one has error GROUP_ID_NOT_FOUND. Raises KafkaError."""
        return await group_admin.describe_groups(self._store, self._clock.now_ms(), group_ids)

    async def delete(self, group_ids: Sequence[str]) -> _Deletions:
        """Delete groups without members, with their offsets.

        Codes: NONE, INVALID_GROUP_ID, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, COORDINATOR_NOT_AVAILABLE (try again).
        """
        return [(group_id, await self._delete_one(group_id)) for group_id in group_ids]

    async def _delete_one(self, group_id: str) -> ErrorCode:
        return await group_admin.delete_group(self._tools, group_id, self._delete_share_items)


class ConsumerHeartbeats:
    """KIP-848's decisions: `HeartbeatProtocol` of consumer groups."""

    def __init__(
        self,
        topics: SubscribedTopics,
        configs: GroupConfigs,
        holds: GrowthHolds,
        clock: Clock,
        settings: Settings,
    ) -> None:
        self._topics = topics
        self._configs = configs
        self._holds = holds
        self._clock = clock
        self._settings = settings

    def check(self, request: GroupHeartbeat) -> None:
        check_heartbeat(request)

    def admit(self, view: GroupView) -> GroupView:
        """The view, in which a classic group without members is an empty group of this protocol.

        Raises KafkaError(GROUP_ID_NOT_FOUND) where classic members live in it, as Kafka answers.
        """
        if view.group is not None and view.group.group_type in _OTHER_CLIENTS:
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"group {view.group_id} is a {view.group.group_type} group: use "
                f"{_OTHER_CLIENTS[view.group.group_type]}, or another group id",
            )
        if view.group is None or view.group.classic is None:
            return view
        if group_admin.has_living_members(view, self._clock.now_ms()):
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"group {view.group_id} has members of the classic protocol: wait until they have left",
            )
        return replace(view, group=replace(view.group, classic=None, assignor="uniform", member_count=0))

    async def decide(self, view: GroupView, request: GroupHeartbeat, nonce: bytes, *, is_taken_in: bool) -> Transition:
        """Decide with cached topics if the group stays unchanged, with fresh ones if it changes.

        While partitions are held the group looks as if it were to change, so every heartbeat asks whether they still
        are.
        """
        decide = decide_continuation if is_taken_in else decide_heartbeat
        members = view.members.values()
        settings = await self._configs.consumer_settings(request.group_id)
        topics = await self._topics.of(members, request)
        transition = decide(view, request, Circumstances(topics, self._clock.now_ms(), nonce, settings))
        if transition.group is None:
            return transition
        topics, interval_ms = await asyncio.gather(
            self._topics.of(members, request, fresh=True), self._configs.assignment_interval_ms(request.group_id)
        )
        group = group_of(view)
        held = await self._holds.held(
            view.group_id, topics.values(), given=union(group.target.values()), since_ms=group.held_since_ms
        )
        around = Circumstances(topics, self._clock.now_ms(), nonce, settings, interval_ms, held=held)
        return decide(view, request, around)
