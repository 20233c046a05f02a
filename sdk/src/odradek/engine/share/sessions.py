"""Share sessions (KIP-932): the partitions that a member fetches, kept between its requests, and their order.

Kafka's brokers keep sessions in memory; here a session is one item, and each of its requests is one conditional update
that also returns it. A stateless server needs that update for incremental requests, and it also fences: a delayed or
repeated request finds a later epoch and changes nothing.

    open    epoch 0     the item, on condition that the member is in a share group; an older session is replaced
    next    epoch n     n -> n + 1, on condition that it is n; partitions that come and go are written with it
    close   epoch -1    read only: the caller gives records back, then `end`; after the member has left too

There is no limit of sessions per server, and sessions do not expire on their own. A session is deleted with a member
that expires; one that a leaving member did not close is deleted when the next member leaves. Replacing a session does
not release its records: they become available when their locks expire, since the member may still process them.
"""

from __future__ import annotations

from functools import partial

from odradek.backoff import Backoff
from odradek.engine.groups.items import SHARE_KIND, group_key, member_key
from odradek.engine.groups.partition_sets import encode_partitions
from odradek.engine.partition.fields import attribute
from odradek.engine.share.items import (
    NONCE_BYTES,
    VERSION,
    ShareSession,
    decode_session,
    encode_session,
    share_session_key,
)
from odradek.errors import (
    ConditionFailed,
    ErrorCode,
    KafkaError,
    OutcomeUnknown,
    StoreError,
    StoreUnavailable,
    TransactionCanceled,
)
from odradek.limits import SHARE_SESSION_PARTITIONS_MAX
from odradek.model.share import CLOSE_SESSION_EPOCH, OPEN_SESSION_EPOCH
from odradek.model.topic_partition import PartitionId
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng
from odradek.ports.table import (
    Absent,
    Action,
    Check,
    Compare,
    Condition,
    Delete,
    Exists,
    Put,
    Set,
    Table,
    Update,
    all_of,
)

_ATTEMPTS = 6
_EPOCH_MAX = 2**31 - 1
_unavailable = partial(KafkaError, ErrorCode.COORDINATOR_NOT_AVAILABLE, "the groups table cannot be reached: try again")


def following(epoch: int) -> int:
    """The epoch after this one: it starts over at 1, since 0 opens a session."""
    return 1 if epoch >= _EPOCH_MAX else epoch + 1


class ShareSessions:
    """Sessions in the groups table."""

    def __init__(self, table: Table, clock: Clock, rng: Rng) -> None:
        self._table = table
        self._rng = rng
        self._backoff = Backoff(clock, rng, first_s=0.01, max_s=0.5)

    async def enter(
        self,
        group_id: str,
        member_id: str,
        epoch: int,
        added: frozenset[PartitionId],
        gone: frozenset[PartitionId],
        *,
        is_acknowledging: bool = False,
    ) -> frozenset[PartitionId]:
        """Take in a request; the partitions that the session has then.

        Raises KafkaError: SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH (open a new session), INVALID_REQUEST,
            COORDINATOR_NOT_AVAILABLE (the epoch may be spent: open a new session). Raises FormatError.
        """
        nonce = self._rng.random_bytes(NONCE_BYTES)
        for attempt in range(_ATTEMPTS):
            try:
                if epoch == OPEN_SESSION_EPOCH:
                    return await self._open(group_id, member_id, nonce, added)
                if epoch == CLOSE_SESSION_EPOCH:
                    return await self._closing(group_id, member_id, is_acknowledging) | added
                return await self._next(group_id, member_id, epoch, nonce, added, gone)
            except (OutcomeUnknown, StoreUnavailable):
                await self._backoff.pause(attempt)
        raise _unavailable()

    async def end(self, group_id: str, member_id: str) -> None:
        """Delete a session; after a failure the member's end does it. Raises no store error."""
        try:
            await self._table.delete(Delete(share_session_key(group_id, member_id)))
        except StoreError:
            return

    async def _open(
        self, group_id: str, member_id: str, nonce: bytes, partitions: frozenset[PartitionId]
    ) -> frozenset[PartitionId]:
        _check_size(partitions)
        key = share_session_key(group_id, member_id)
        current = await self._table.get(key)
        if current is not None and current.get("w") == nonce:
            return partitions
        # On the session as it was read: an attempt that arrives late replaces none that was opened since.
        as_read = Absent(("v",)) if current is None else Compare(("w",), "=", attribute(current, "w", bytes))
        try:
            await self._table.transact(
                [
                    Put(key, encode_session(ShareSession(1, nonce, partitions)), as_read),
                    Check(member_key(group_id, member_id), Exists(("v",))),
                    Check(group_key(group_id), Compare(("k",), "=", SHARE_KIND)),
                ]
            )
        except TransactionCanceled as error:
            if error.failures[0] is None:
                raise _not_found(
                    group_id, member_id, "is not a member of the share group: send a heartbeat first"
                ) from None
            raise StoreUnavailable("has a session that has changed meanwhile") from error
        return partitions

    async def _next(
        self,
        group_id: str,
        member_id: str,
        epoch: int,
        nonce: bytes,
        added: frozenset[PartitionId],
        gone: frozenset[PartitionId],
    ) -> frozenset[PartitionId]:
        key = share_session_key(group_id, member_id)
        expected: list[Condition] = [Compare(("v",), "=", VERSION), Compare(("n",), "=", epoch)]
        actions: list[Action] = [Set(("n",), following(epoch)), Set(("w",), nonce)]
        if added or gone:
            session = await self._read(group_id, member_id)
            if session.nonce == nonce:
                return session.partitions
            partitions = (session.partitions | added) - gone
            _check_size(partitions)
            expected.append(Compare(("w",), "=", session.nonce))  # it is as it was read
            actions.append(Set(("p",), encode_partitions(partitions)))
        try:
            item = await self._table.update(Update(key, tuple(actions), all_of(*expected)))
        except ConditionFailed as error:
            if error.current is None:
                raise _not_found(group_id, member_id, "has no share session: open one") from None
            session = decode_session(error.current)
            if session.nonce == nonce:  # an earlier attempt of this call
                return session.partitions
            raise KafkaError(
                ErrorCode.INVALID_SHARE_SESSION_EPOCH,
                f"the share session of member {member_id} expects epoch {session.epoch}, not {epoch}: open a new one",
            ) from None
        return decode_session(item).partitions

    async def _closing(self, group_id: str, member_id: str, is_acknowledging: bool) -> frozenset[PartitionId]:
        """Return the partitions of a session that ends. Acknowledgements need none: a window knows its holders."""
        try:
            return (await self._read(group_id, member_id)).partitions
        except KafkaError:
            if is_acknowledging:
                return frozenset()
            raise

    async def _read(self, group_id: str, member_id: str) -> ShareSession:
        item = await self._table.get(share_session_key(group_id, member_id))
        if item is None:
            raise _not_found(group_id, member_id, "has no share session: open one")
        return decode_session(item)


def _check_size(partitions: frozenset[PartitionId]) -> None:
    if len(partitions) > SHARE_SESSION_PARTITIONS_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"a share session may have at most {SHARE_SESSION_PARTITIONS_MAX} partitions"
        )


def _not_found(group_id: str, member_id: str, what: str) -> KafkaError:
    return KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND, f"member {member_id} of group {group_id} {what}")
