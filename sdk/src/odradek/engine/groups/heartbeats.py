"""The loop of a heartbeat: read, decide, conditional write; repeated if another heartbeat was faster.

Consumer groups and share groups decide differently (`HeartbeatProtocol`); reads, writes and the handling of an unknown
outcome are the same for both.

Every written member carries the nonce of its call. A write whose outcome is not known, or whose first attempt was
applied behind an adapter's retry, is recognized by it on the next read, so a heartbeat is applied once however it
times out.
"""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Protocol

from odradek.backoff import Backoff
from odradek.engine.groups.decisions import Transition
from odradek.engine.groups.state import GroupView
from odradek.engine.groups.store import GroupStore
from odradek.errors import (
    ConditionFailed,
    ErrorCode,
    ItemTooLarge,
    KafkaError,
    OutcomeUnknown,
    StoreRejected,
    StoreUnavailable,
    TransactionCanceled,
)
from odradek.model.group import GroupHeartbeat, GroupHeartbeatResult
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng
from odradek.settings import Settings

STEPS_MAX = 256  # applied steps of one heartbeat: 24,000 leases
_NONCE_BYTES = 8
_MEMBER_ID_BYTES = 16


class HeartbeatProtocol(Protocol):
    """The decisions about heartbeats of a kind of group."""

    def check(self, request: GroupHeartbeat) -> None:
        """Raise KafkaError for a request that no state of a group would accept."""
        ...

    def admit(self, view: GroupView) -> GroupView:
        """Return the view as this kind of group sees it. Raises KafkaError if the group is of another kind."""
        ...

    async def decide(self, view: GroupView, request: GroupHeartbeat, nonce: bytes, *, is_taken_in: bool) -> Transition:
        """Return the next step. Raises KafkaError, StoreError.

        Args:
            nonce: written with the members of the step.
            is_taken_in: True if a step of this heartbeat has been applied already.
        """
        ...


class Heartbeats:
    """Serves the heartbeats of one kind of group."""

    def __init__(
        self, store: GroupStore, protocol: HeartbeatProtocol, clock: Clock, rng: Rng, settings: Settings
    ) -> None:
        self._store = store
        self._protocol = protocol
        self._rng = rng
        self._backoff = Backoff(clock, rng, first_s=0.01, max_s=0.2)
        self._settings = settings

    async def heartbeat(self, request: GroupHeartbeat) -> GroupHeartbeatResult:
        """Join, live on or leave; failures are results."""
        try:
            self._protocol.check(request)
            if not request.member_id:
                made = base64.urlsafe_b64encode(self._rng.random_bytes(_MEMBER_ID_BYTES)).decode().rstrip("=")
                request = replace(request, member_id=made)
            result = await self._heartbeat(request)
        except KafkaError as error:
            result = GroupHeartbeatResult(error=error.code, message=error.message)
        except (ItemTooLarge, StoreRejected):
            result = GroupHeartbeatResult(
                error=ErrorCode.GROUP_MAX_SIZE_REACHED,
                message=f"member or target of group {request.group_id} does not fit an item: use fewer members or "
                "topics, or a pattern instead of many names",
            )
        if result.error is not ErrorCode.NONE:
            return replace(result, heartbeat_interval_ms=self._settings.group_heartbeat_interval_ms)
        return result

    async def _heartbeat(self, request: GroupHeartbeat) -> GroupHeartbeatResult:
        doubtful: dict[bytes, Transition] = {}  # by nonce: tried, perhaps applied
        removing: GroupHeartbeatResult | None = None  # the answer, should the member turn out to be gone
        is_taken_in = False
        failures = steps = 0
        while failures < self._settings.group_attempts_max and steps < STEPS_MAX:
            nonce = self._rng.random_bytes(_NONCE_BYTES)
            try:
                view = self._protocol.admit(await self._store.read(request.group_id))
                own = view.members.get(request.member_id)
                if removing is not None and own is None:
                    return removing
                transition = doubtful.pop(own.nonce, None) if own is not None else None
                if transition is None:
                    transition = await self._protocol.decide(view, request, nonce, is_taken_in=is_taken_in)
                    if transition.writes:
                        doubtful[nonce] = transition
                        if any(member.member_id == request.member_id for member in transition.removed):
                            removing = transition.result
                        await self._store.write(view, transition)
                        del doubtful[nonce]
            except (ConditionFailed, TransactionCanceled, StoreUnavailable, OutcomeUnknown):
                await self._backoff.pause(failures)
                failures += 1
                continue
            if transition.then == "answer":
                return transition.result
            steps += 1
            is_taken_in = is_taken_in or transition.then == "continue"
        raise KafkaError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            f"group {request.group_id} is contended, or the groups table does not answer: send the heartbeat again",
        )
