"""Commit and fetch of consumer offsets: each partition's is in its lease (offsets/decisions.py).

A commit is one conditional update an item of leases, that is, for up to 16 partitions that share a head; nothing is
read before. A partition that is refused is left out, and the others are sent again. Only a refused commit reads
the group, to tell the member why. A simple consumer (no member id, epoch -1) reads the group item first: its commits
are taken only while the group has no members, and make the group where there is none.

A fetch of named partitions is stable (KIP-447), whether its client asks for that or not: it reads by TransactGetItems.
A transaction's items become visible one by one, so an instance that has fenced its predecessor - the row of the
transactional id, or the group's item, is past the commit - could still read a lease from before that commit, and would
process the same records again. A transactional read is refused until the lease has what the commit gave it
(docs/decisions/0010).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from odradek.backoff import Backoff
from odradek.engine.catalog.partitions import find_partition, has_partition
from odradek.engine.catalog.topics import Topics
from odradek.engine.classic.groups import MEMBER_ID
from odradek.engine.groups.admin import evict, has_living_members
from odradek.engine.groups.leases import (
    LEASE_PREFIX,
    LEASES_END,
    LeaseSlot,
    decode_lease,
    joined,
    lease_slot,
    leases_in,
)
from odradek.engine.groups.requests import check_group_id
from odradek.engine.groups.state import GroupState, MemberState
from odradek.engine.groups.store import GroupStore, create_group_operations
from odradek.engine.offsets.classic import ClassicOffsets
from odradek.engine.offsets.decisions import (
    NO_EPOCH,
    Committer,
    check_offset,
    commit_operation,
    decide_refusal,
    explain_refusal,
)
from odradek.engine.offsets.deletion import delete_offsets
from odradek.engine.partition.applied_reads import chunked
from odradek.errors import (
    ConditionFailed,
    ErrorCode,
    ItemTooLarge,
    KafkaError,
    OutcomeUnknown,
    StoreRejected,
    StoreUnavailable,
    TransactionCanceled,
    TransactionConflict,
)
from odradek.format.item_keys import group_pk
from odradek.model.group import OffsetCommitResult, OffsetFetchResult
from odradek.model.topic import Topic
from odradek.model.topic_partition import OffsetAndMetadata, PartitionId, TopicPartition
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng
from odradek.ports.table import Item, Key, Table, Update
from odradek.settings import Settings

_PARALLEL_COMMITS = 25
_STABLE_ATTEMPTS = 4


@dataclass
class _Commit:
    """One partition of a commit that is under way."""

    slot: LeaseSlot
    topic: str
    offset: OffsetAndMetadata
    code: ErrorCode = ErrorCode.COORDINATOR_NOT_AVAILABLE


class GroupOffsets:
    """Committed offsets of consumer groups."""

    def __init__(self, groups: Table, topics: Topics, clock: Clock, rng: Rng, settings: Settings) -> None:
        self._store = GroupStore(groups)
        self._classic = ClassicOffsets(groups, topics, clock, rng, settings)
        self._topics = topics
        self._clock = clock
        self._rng = rng
        self._backoff = Backoff(clock, rng, first_s=0.01, max_s=0.2)
        self._settings = settings

    async def commit(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        *,
        member_id: str = "",
        member_epoch: int = NO_EPOCH,
        instance_id: str | None = None,
    ) -> list[OffsetCommitResult]:
        """Commit offsets as a member, or as a simple consumer; results in the order of `offsets`.

        Codes of a partition: NONE; UNKNOWN_TOPIC_OR_PARTITION, OFFSET_METADATA_TOO_LARGE (correct it);
        STALE_MEMBER_EPOCH (the epoch of the next heartbeat may do); FENCED_MEMBER_EPOCH (the partition
        is not the member's now), UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID (drop it); COORDINATOR_NOT_AVAILABLE (commit
        again).

        Raises:
            KafkaError: INVALID_GROUP_ID; UNKNOWN_MEMBER_ID where a simple consumer meets a group with members;
                COORDINATOR_NOT_AVAILABLE.
        """
        check_group_id(group_id)
        committer = Committer(member_id, member_epoch, instance_id)
        if committer.is_simple and offsets:
            await self._make_room_for_simple(group_id)
        if not committer.is_simple and MEMBER_ID.search(member_id):
            results = await self._classic.commit(group_id, offsets, committer)
            if results is not None:
                return results
        limit = asyncio.Semaphore(_PARALLEL_COMMITS)
        started_s = self._clock.monotonic()
        prepared = [await self._prepare(group_id, partition, offset) for partition, offset in offsets.items()]
        commits = [each for each in prepared if isinstance(each, _Commit)]
        items: dict[Key, list[_Commit]] = {}
        for each in commits:
            items.setdefault(each.slot.key, []).append(each)

        async def commit_item(some: list[_Commit]) -> None:
            async with limit:
                await self._commit_item(some, committer, started_s)

        await asyncio.gather(*(commit_item(some) for some in items.values()))
        codes = [each.code if isinstance(each, _Commit) else each for each in prepared]
        refused = {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.STALE_MEMBER_EPOCH}
        if not committer.is_simple and refused.intersection(codes):
            members = await self._members(group_id)
            codes = [explain_refusal(code, committer, members) if code in refused else code for code in codes]
        return [OffsetCommitResult(partition, code) for partition, code in zip(offsets, codes, strict=True)]

    async def fetch(
        self,
        group_id: str,
        partitions: Sequence[TopicPartition] | None,
        *,
        member_id: str | None = None,
        member_epoch: int = NO_EPOCH,
        require_stable: bool = False,
    ) -> list[OffsetFetchResult]:
        """Return committed offsets of the partitions in their order, or all (None), by topic and partition.

        Offsets of deleted topics are not returned, also if a topic of that name was created again.

        Args:
            require_stable: a partition to which a transaction is being applied for longer than a few attempts take is
                answered UNSTABLE_OFFSET_COMMIT; without, the whole call is COORDINATOR_NOT_AVAILABLE then, since older
                clients do not know the code. No offset from before such a transaction is answered either way, except
                where all partitions are asked for and `require_stable` is false.

        Raises:
            KafkaError: INVALID_GROUP_ID; UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH where a member is named that the group
                does not have with this epoch; COORDINATOR_NOT_AVAILABLE.
        """
        check_group_id(group_id)
        try:
            if member_id is not None and member_epoch >= 0:
                await self._check_member(group_id, member_id, member_epoch)
            if partitions is None:
                found = await self._fetch_all(group_id)
                if not require_stable:
                    return found
                partitions = [each.partition for each in found]
            return await self._fetch_some(group_id, partitions, require_stable=require_stable)
        except StoreUnavailable as error:
            raise _unavailable() from error

    async def refusals(
        self, group_id: str, partitions: Sequence[PartitionId], committer: Committer
    ) -> dict[PartitionId, ErrorCode]:
        """Return NONE or an error for each partition that a transaction of the committer would commit now.

        Nothing is committed. A simple consumer's group is made where there is none. Raises KafkaError as `commit`; but
        a transaction that names neither member nor instance may commit for a classic group that has members, as on
        Apache Kafka: older protocols, aiokafka and kafkajs name none, and the transactional id fences them.
        """
        if committer.is_simple and partitions:
            is_nobody = not committer.member_id and committer.instance_id is None
            await self._make_room_for_simple(group_id, beside_classic=is_nobody)
        elif MEMBER_ID.search(committer.member_id):
            code = await self._classic.refusal(group_id, committer)
            if code is not None:
                return dict.fromkeys(partitions, code)
        try:
            slots = [lease_slot(group_id, partition) for partition in partitions]
            keys = list(dict.fromkeys(slot.key for slot in slots))
            items = dict(zip(keys, await self._store.table.get_many(keys), strict=True))
        except StoreUnavailable as error:
            raise _unavailable() from error
        verdicts = [decide_refusal(items[slot.key], slot, committer) for slot in slots]
        codes = [verdict if isinstance(verdict, ErrorCode) else ErrorCode.NONE for verdict in verdicts]
        if any(codes):
            members = await self._members(group_id)
            codes = [explain_refusal(code, committer, members) if code else code for code in codes]
        return dict(zip(partitions, codes, strict=True))

    async def delete(self, group_id: str, partitions: Sequence[TopicPartition]) -> list[OffsetCommitResult]:
        """Delete committed offsets (OffsetDelete, KIP-496); results in the order of `partitions`.

        Codes of a partition: NONE (also where there was none); UNKNOWN_TOPIC_OR_PARTITION; GROUP_SUBSCRIBED_TO_TOPIC
        (a member reads the topic); COORDINATOR_NOT_AVAILABLE (again).

        Raises:
            KafkaError: INVALID_GROUP_ID, GROUP_ID_NOT_FOUND; NON_EMPTY_GROUP where members do not say what they read;
                COORDINATOR_NOT_AVAILABLE.
        """
        check_group_id(group_id)
        return await delete_offsets(self._store, self._topics, self._clock, self._rng, group_id, partitions)

    # --- commit ---------------------------------------------------------------------------------------------------

    async def _prepare(
        self, group_id: str, partition: TopicPartition, offset: OffsetAndMetadata
    ) -> _Commit | ErrorCode:
        code = check_offset(offset, self._settings.offset_metadata_bytes_max)
        if code is not ErrorCode.NONE:
            return code
        try:
            there = await find_partition(self._topics, partition)
        except KafkaError as error:
            return error.code
        if there is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        topic, place = there
        return _Commit(lease_slot(group_id, place), topic.name, offset)

    async def _commit_item(self, commits: Sequence[_Commit], committer: Committer, started_s: float) -> None:
        """Commit to leases of one item, those of them that are not refused; each is told its code."""
        left = list(commits)
        stamp_ms = self._clock.now_ms()

        def update(commit: _Commit) -> Update:
            return commit_operation(commit.slot, commit.topic, commit.offset, committer, stamp_ms)

        for attempt in range(self._settings.group_attempts_max):
            try:
                await self._store.table.update(joined(map(update, left)))
            except ConditionFailed as error:
                allowed = []
                for each in left:
                    refusal = decide_refusal(error.current, each.slot, committer)
                    if isinstance(refusal, ErrorCode):
                        each.code = refusal
                    else:
                        allowed.append(each)
                        stamp_ms = max(refusal, stamp_ms)
                left = allowed
                if not left:
                    return
                if self._clock.monotonic() - started_s > self._settings.request_timeout_ms / 1000:
                    break  # nobody waits for this call any more: a later commit must not be undone by it
                stamp_ms += 1
            except (OutcomeUnknown, StoreUnavailable):
                stamp_ms += 1
                await self._backoff.pause(attempt)
            except (ItemTooLarge, StoreRejected):
                for each in left:
                    each.code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                return
            else:
                for each in left:
                    each.code = ErrorCode.NONE
                return
        for each in left:
            each.code = ErrorCode.COORDINATOR_NOT_AVAILABLE

    async def _make_room_for_simple(self, group_id: str, *, beside_classic: bool = False) -> None:
        """Make the group if it is not there, and remove members that died long ago. Raises KafkaError.

        Args:
            beside_classic: living members of the classic protocol, which own no leases, are not in the way.
        """
        for attempt in range(self._settings.group_attempts_max):
            try:
                group = await self._store.read_group(group_id)
                if group is None:
                    await self._store.table.transact(create_group_operations(GroupState(group_id)))
                    return
                if group.is_share:
                    raise KafkaError(
                        ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id} is a share group: it commits no offsets"
                    )
                if group.member_count == 0:
                    return
                if beside_classic and group.classic is not None:
                    return
                view = await self._store.read(group_id)
                if has_living_members(view, self._clock.now_ms()):
                    raise KafkaError(
                        ErrorCode.UNKNOWN_MEMBER_ID,
                        f"group {group_id} has members: commit as one of them, or after all have left",
                    )
                if view.group is not None and view.group.classic is not None:
                    return  # all dead: their generation still fences them
                if not view.members:
                    return  # two that left at once, each leaving the other the group
                await evict(self._store, self._clock, self._settings, view)
            except (ConditionFailed, TransactionCanceled, OutcomeUnknown, StoreUnavailable):
                await self._backoff.pause(attempt)
        raise _unavailable()

    # --- fetch ----------------------------------------------------------------------------------------------------

    async def _check_member(self, group_id: str, member_id: str, member_epoch: int) -> None:
        member = await self._store.read_member(group_id, member_id)
        if member is None:
            group = await self._store.read_group(group_id)
            if group is not None and group.classic is not None:
                return  # a classic member may ask for anything
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"member {member_id} is not in group {group_id}: join again")
        if member.epoch != member_epoch:
            raise KafkaError(
                ErrorCode.STALE_MEMBER_EPOCH,
                f"member {member_id} has epoch {member.epoch}, not {member_epoch}: try again after the next heartbeat",
            )

    async def _fetch_some(
        self, group_id: str, partitions: Sequence[TopicPartition], *, require_stable: bool
    ) -> list[OffsetFetchResult]:
        topics: dict[str, Topic | None] = {}
        for name in dict.fromkeys(partition.topic for partition in partitions):
            topics[name] = await self._topics.get(name)
        slots = {}
        for partition in partitions:
            topic = topics[partition.topic]
            if has_partition(topic, partition.partition):
                slots[partition] = lease_slot(group_id, PartitionId(topic.topic_id, partition.partition))
        items = await self._stable(list(dict.fromkeys(slot.key for slot in slots.values())))
        if not require_stable and any(isinstance(item, TransactionConflict) for item in items.values()):
            raise _unavailable()
        results = []
        for partition in partitions:
            slot = slots.get(partition)
            item = None if slot is None else items[slot.key]
            if isinstance(item, TransactionConflict):
                results.append(OffsetFetchResult(partition, None, ErrorCode.UNSTABLE_OFFSET_COMMIT))
            else:
                committed = None if item is None or slot is None else decode_lease(item, slot.suffix).committed
                results.append(OffsetFetchResult(partition, committed))
        return results

    async def _stable(self, keys: Sequence[Key]) -> dict[Key, Item | TransactionConflict | None]:
        """Return the leases after every transaction that was applied before this call, or the reason why not.

        A chunk that conflicts is retried for as long as a transaction usually takes, and then lease by lease, so that
        the other leases are answered. Raises StoreUnavailable.
        """
        found: dict[Key, Item | TransactionConflict | None] = {}
        chunks = chunked(keys)
        while chunks:
            chunk = chunks.pop()
            for attempt in range(_STABLE_ATTEMPTS):
                try:
                    found |= zip(chunk, await self._store.table.transact_get(chunk), strict=True)
                    break
                except TransactionConflict as conflict:
                    if attempt < _STABLE_ATTEMPTS - 1:
                        await self._backoff.pause(attempt)
                    elif len(chunk) == 1:
                        found[chunk[0]] = conflict
                    else:
                        middle = len(chunk) // 2
                        chunks += [chunk[:middle], chunk[middle:]]
        return found

    async def _fetch_all(self, group_id: str) -> list[OffsetFetchResult]:
        rows = await self._store.table.query(group_pk(group_id), sk_from=LEASE_PREFIX, sk_to=LEASES_END)
        results = []
        for key, item in rows:
            for (topic_id, number), lease in leases_in(key.sk, item):
                topic = None if lease.committed is None else await self._topics.get_by_id(topic_id)
                if topic is not None:
                    results.append(OffsetFetchResult(TopicPartition(topic.name, number), lease.committed))
        return sorted(results, key=lambda result: result.partition)

    async def _members(self, group_id: str) -> Mapping[str, MemberState]:
        try:
            return (await self._store.read(group_id)).members
        except StoreUnavailable as error:
            raise _unavailable() from error


def _unavailable() -> KafkaError:
    return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the groups table cannot be reached: try again")
