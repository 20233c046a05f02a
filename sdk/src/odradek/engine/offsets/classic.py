"""Commits by members of classic groups: fenced by (member, generation) in the transaction that writes the offsets.

A lease of a classic group names no owner, for the coordinator does not know what the leader assigned. So the commit
carries a check of the group's item: it is classic, of this generation, has this member and is not between a round and
its sync. A member that was paused for however long can not commit after the round that left it out: the generation is
another one by then. Up to `PARTITIONS_A_COMMIT` partitions are committed all together or not at all.

Stamps make a commit that arrives late harmless, as in offsets/decisions.py. Such a commit costs twice the write units
of one in the consumer protocol (it is a transaction), and commits of many members that meet in one moment are retried.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from odradek.backoff import Backoff
from odradek.engine.catalog.partitions import find_partition
from odradek.engine.catalog.topics import Topics
from odradek.engine.classic.decisions import decide_commit
from odradek.engine.groups.classic_items import KIND, decode_classic, is_classic
from odradek.engine.groups.items import group_key
from odradek.engine.groups.leases import LeaseSlot, joined, lease_slot
from odradek.engine.offsets.decisions import Committer, check_offset, commit_operation, decide_refusal
from odradek.errors import (
    ErrorCode,
    ItemTooLarge,
    KafkaError,
    OutcomeUnknown,
    StoreRejected,
    StoreUnavailable,
    TransactionCanceled,
)
from odradek.limits import TABLE_TRANSACTION_ITEMS_MAX
from odradek.model.classic_group import ClassicGroup, ClassicIdentity, ClassicState
from odradek.model.group import OffsetCommitResult
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng
from odradek.ports.table import Check, Compare, Contains, Item, Key, Operation, Table, Update, all_of
from odradek.settings import Settings

PARTITIONS_A_COMMIT = TABLE_TRANSACTION_ITEMS_MAX - 1
_SIMPLE = Committer()  # what the lease sees: nobody owns it


def fence(group_id: str, member_id: str, generation: int) -> Check:
    """Return the check that holds while this member may commit in this generation; also for a transaction."""
    return Check(
        group_key(group_id),
        all_of(
            Compare(("k",), "=", KIND),
            Compare(("g",), "=", generation),
            Compare(("s",), "<>", ClassicState.COMPLETING_REBALANCE.value),
            Contains(("i",), member_id),
        ),
    )


def explain_fence(current: Item | None, identity: ClassicIdentity) -> ErrorCode | None:
    """Return why the fence did not hold, NONE if it would now; None if the group is not classic."""
    if current is not None and not is_classic(current):
        return None
    group = ClassicGroup() if current is None else decode_classic(current)
    return decide_commit(group, identity)


@dataclass(slots=True)
class _Commit:
    """One partition of a commit that is under way."""

    partition: TopicPartition
    slot: LeaseSlot
    offset: OffsetAndMetadata
    stamp_ms: int


class ClassicOffsets:
    """Commits of classic members."""

    def __init__(self, groups: Table, topics: Topics, clock: Clock, rng: Rng, settings: Settings) -> None:
        self._table = groups
        self._topics = topics
        self._clock = clock
        self._backoff = Backoff(clock, rng, first_s=0.01, max_s=0.2)
        self._settings = settings

    async def commit(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], committer: Committer
    ) -> list[OffsetCommitResult] | None:
        """Commit; results in the order of `offsets`, or None if the group is of the consumer protocol.

        Codes of a partition: those of `GroupOffsets.commit`; ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS (join again).
        """
        identity = ClassicIdentity(group_id, committer.member_id, committer.member_epoch, committer.instance_id)
        codes: dict[TopicPartition, ErrorCode] = {}
        commits = []
        for partition, offset in offsets.items():
            found = await self._prepare(group_id, partition, offset)
            if isinstance(found, ErrorCode):
                codes[partition] = found
            else:
                commits.append(found)
        for start in range(0, len(commits), PARTITIONS_A_COMMIT):
            chunk = commits[start : start + PARTITIONS_A_COMMIT]
            done = await self._commit(identity, chunk)
            if done is None:
                return None
            codes |= done
        return [OffsetCommitResult(partition, codes[partition]) for partition in offsets]

    async def refusal(self, group_id: str, committer: Committer) -> ErrorCode | None:
        """Return the error with which a commit of the member would be refused; None for a consumer-protocol group.

        Raises KafkaError(COORDINATOR_NOT_AVAILABLE).
        """
        identity = ClassicIdentity(group_id, committer.member_id, committer.member_epoch, committer.instance_id)
        try:
            return explain_fence(await self._table.get(group_key(group_id)), identity)
        except StoreUnavailable as error:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, "the groups table cannot be reached: try again"
            ) from error

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
        _, place = there
        return _Commit(partition, lease_slot(group_id, place), offset, self._clock.now_ms())

    async def _commit(
        self, identity: ClassicIdentity, commits: list[_Commit]
    ) -> dict[TopicPartition, ErrorCode] | None:
        started_s = self._clock.monotonic()
        codes: dict[TopicPartition, ErrorCode] = {}
        for attempt in range(self._settings.group_attempts_max):
            operations: list[Operation] = [fence(identity.group_id, identity.member_id, identity.generation)]
            operations += [joined(map(_operation, some)) for some in _by_item(commits)]
            try:
                await self._table.transact(operations)
            except TransactionCanceled as error:
                if error.failures[0] is not None:
                    code = explain_fence(error.failures[0].current, identity)
                    if code is None:
                        return None
                    if code is not ErrorCode.NONE:
                        return codes | {each.partition: code for each in commits}
                commits = _after_refusal(commits, error, codes)
                if not commits:
                    return codes
            except (ItemTooLarge, StoreRejected):
                return codes | {each.partition: ErrorCode.OFFSET_METADATA_TOO_LARGE for each in commits}
            except (OutcomeUnknown, StoreUnavailable):
                for each in commits:
                    each.stamp_ms += 1
                await self._backoff.pause(attempt)
            else:
                return codes | {each.partition: ErrorCode.NONE for each in commits}
            if self._clock.monotonic() - started_s > self._settings.request_timeout_ms / 1000:
                break  # nobody waits for this call any more: a later commit must not be undone by it
        return codes | {each.partition: ErrorCode.COORDINATOR_NOT_AVAILABLE for each in commits}


def _operation(commit: _Commit) -> Update:
    return commit_operation(commit.slot, commit.partition.topic, commit.offset, _SIMPLE, commit.stamp_ms)


def _by_item(commits: list[_Commit]) -> list[list[_Commit]]:
    """The commits by the item that their leases are in."""
    items: dict[Key, list[_Commit]] = {}
    for commit in commits:
        items.setdefault(commit.slot.key, []).append(commit)
    return list(items.values())


def _after_refusal(
    commits: list[_Commit], error: TransactionCanceled, codes: dict[TopicPartition, ErrorCode]
) -> list[_Commit]:
    """Return the commits left to try, with a later stamp if that was the reason; errors go to `codes`."""
    left = []
    failures = dict(zip((some[0].slot.key for some in _by_item(commits)), error.failures[1:], strict=True))
    for commit in commits:
        failure = failures[commit.slot.key]
        refusal = None if failure is None else decide_refusal(failure.current, commit.slot, _SIMPLE)
        if isinstance(refusal, ErrorCode):
            codes[commit.partition] = refusal
            continue
        if refusal is not None:
            commit.stamp_ms = max(refusal, commit.stamp_ms) + 1
        left.append(commit)
    return left
