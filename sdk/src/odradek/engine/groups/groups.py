"""Consumer groups: read, decide, write on condition; again where another heartbeat was faster.

A heartbeat of a quiet group is one Query and one PutItem. One that joins, leaves or moves partitions is a
transaction or two. A target stands for `consumer.assignment.interval.ms` before the next is computed. There is no
barrier: each member reconciles at its own heartbeats, and leases keep two members from one partition
(groups/decisions.py).

Every written member carries the nonce of its call. A write whose outcome is not known, or whose first attempt was
applied behind an adapter's retry, is recognized by it on the next read, so a heartbeat is applied once however it
times out.
"""

from __future__ import annotations

import asyncio
import base64
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
)
from odradek.engine.groups.requests import check_heartbeat
from odradek.engine.groups.state import GroupView
from odradek.engine.groups.store import GroupStore
from odradek.engine.groups.topics import SubscribedTopics
from odradek.errors import (
    ConditionFailed,
    ErrorCode,
    KafkaError,
    OutcomeUnknown,
    StoreUnavailable,
    TransactionCanceled,
)
from odradek.model.group import GroupDescription, GroupHeartbeat, GroupHeartbeatResult, GroupListing
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng
from odradek.ports.tables import Tables
from odradek.settings import Settings

# A method is named `list`, so inside the class the type needs another name.
_Listings = list[GroupListing]
_Descriptions = list[GroupDescription]
_Deletions = list[tuple[str, ErrorCode]]

STEPS_MAX = 256  # applied steps of one heartbeat: 24,000 leases
_BACKOFF_S = 0.005
_BACKOFF_S_MAX = 0.2
_NONCE_BYTES = 8
_MEMBER_ID_BYTES = 16


class Groups:
    """KIP-848's group coordinator over the groups table; a share group takes more with it when it is deleted."""

    def __init__(
        self, tables: Tables, topics: Topics, configs: GroupConfigs, clock: Clock, rng: Rng, settings: Settings
    ) -> None:
        self._tables = tables
        self._store = GroupStore(tables.groups)
        self._topics = SubscribedTopics(topics, clock, settings)
        self._configs = configs
        self._clock = clock
        self._rng = rng
        self._settings = settings

    async def heartbeat(self, request: GroupHeartbeat) -> GroupHeartbeatResult:
        """Join, live on or leave; the answer says epoch, assignment and when to come back. Failures are results.

        Errors: INVALID_GROUP_ID, INVALID_REQUEST, UNSUPPORTED_ASSIGNOR, INVALID_REGULAR_EXPRESSION,
        GROUP_MAX_SIZE_REACHED, UNRELEASED_INSTANCE_ID (give up), UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH (drop all
        partitions, join again), FENCED_INSTANCE_ID (another process has this place), COORDINATOR_NOT_AVAILABLE (send
        the whole heartbeat again).
        """
        try:
            self._check(request)
            if not request.member_id:
                made = base64.urlsafe_b64encode(self._rng.random_bytes(_MEMBER_ID_BYTES)).decode().rstrip("=")
                request = replace(request, member_id=made)
            result = await self._heartbeat(request)
        except KafkaError as error:
            result = GroupHeartbeatResult(error=error.code, message=error.message)
        if result.error is not ErrorCode.NONE:
            return replace(result, heartbeat_interval_ms=self._settings.group_heartbeat_interval_ms)
        return result

    async def list(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> _Listings:
        """All groups in the order of their ids, or those of the given states and types. Raises KafkaError."""
        return await group_admin.list_groups(self._store, self._clock.now_ms(), states, types)

    async def describe(self, group_ids: Sequence[str]) -> _Descriptions:
        """The groups in the order asked for; one that is not there has error GROUP_ID_NOT_FOUND. Raises KafkaError."""
        return await group_admin.describe_groups(self._store, self._clock.now_ms(), group_ids)

    async def delete(self, group_ids: Sequence[str]) -> _Deletions:
        """Delete groups without members, with their offsets.

        Codes: NONE, INVALID_GROUP_ID, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, COORDINATOR_NOT_AVAILABLE (try again).
        """
        return [
            (group_id, await group_admin.delete_group(self._tables, self._clock, self._settings, group_id))
            for group_id in group_ids
        ]

    async def _heartbeat(self, request: GroupHeartbeat) -> GroupHeartbeatResult:
        doubtful: dict[bytes, Transition] = {}  # by nonce: tried, perhaps applied
        removing: GroupHeartbeatResult | None = None  # the answer, should the member turn out to be gone
        is_taken_in = False
        failures = steps = 0
        while failures < self._settings.group_attempts_max and steps < STEPS_MAX:
            nonce = self._rng.random_bytes(_NONCE_BYTES)
            try:
                view = self._of_this_protocol(await self._store.read(request.group_id))
                own = view.members.get(request.member_id)
                if removing is not None and own is None:
                    return removing
                transition = doubtful.pop(own.nonce, None) if own is not None else None
                if transition is None:
                    transition = await self._decide(view, request, nonce, is_taken_in=is_taken_in)
                    if transition.writes:
                        doubtful[nonce] = transition
                        if any(member.member_id == request.member_id for member in transition.removed):
                            removing = transition.result
                        await self._store.write(view, transition)
                        del doubtful[nonce]
            except (ConditionFailed, TransactionCanceled, StoreUnavailable, OutcomeUnknown):
                failures += 1
                await self._back_off(failures)
                continue
            if transition.then == "answer":
                return transition.result
            steps += 1
            is_taken_in = is_taken_in or transition.then == "continue"
        raise KafkaError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            f"group {request.group_id} is changing too fast or its table does not answer: send the heartbeat again",
        )

    def _check(self, request: GroupHeartbeat) -> None:
        check_heartbeat(request)

    def _of_this_protocol(self, view: GroupView) -> GroupView:
        """The view, in which a classic group without members is an empty group of this protocol.

        Raises KafkaError(GROUP_ID_NOT_FOUND) where classic members live in it, as Kafka answers.
        """
        if view.group is not None and view.group.is_share:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {view.group_id} is a share group: read it as one")
        if view.group is None or view.group.classic is None:
            return view
        if group_admin.has_living_members(view, self._clock.now_ms()):
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"group {view.group_id} has members of the classic protocol: wait until they have left",
            )
        return replace(view, group=replace(view.group, classic=None, assignor="uniform", member_count=0))

    async def _decide(self, view: GroupView, request: GroupHeartbeat, nonce: bytes, *, is_taken_in: bool) -> Transition:
        """Decide on remembered topics where the group stays as it is, on fresh ones where it changes."""
        decide = decide_continuation if is_taken_in else decide_heartbeat
        members = view.members.values()
        topics = await self._topics.of(members, request)
        transition = decide(view, request, Circumstances(topics, self._clock.now_ms(), nonce, self._settings))
        if transition.group is None:
            return transition
        topics, interval_ms = await asyncio.gather(
            self._topics.of(members, request, fresh=True), self._configs.assignment_interval_ms(request.group_id)
        )
        return decide(view, request, Circumstances(topics, self._clock.now_ms(), nonce, self._settings, interval_ms))

    async def _back_off(self, failures: int) -> None:
        longest_s = min(_BACKOFF_S * 2**failures, _BACKOFF_S_MAX)
        await self._clock.sleep(longest_s * (0.5 + self._rng.random() / 2))
