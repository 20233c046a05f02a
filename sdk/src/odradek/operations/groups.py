"""Groups of every kind, consumer, classic, share and streams: members, assignments, committed offsets, lag."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from odradek.client.admin.admin import Admin
from odradek.client.types import ConsumerGroupDescription, MemberDescription, StreamsMemberInfo
from odradek.errors import ErrorCode, KafkaError
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition

_AT_ONCE = 16
_DESCRIBED_AT_ONCE = 50
_LEFT_OUT = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_AUTHORIZATION_FAILED)
_NO_ENDS = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group in a list."""

    group: str
    state: str
    type: str  # consumer | classic | share | streams


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A member of a group."""

    member: str
    client: str
    host: str
    topics: tuple[str, ...]  # subscribed to
    assigned: tuple[str, ...]  # partitions, as topic-number; of a streams group tasks, as subtopology_number


@dataclass(frozen=True, slots=True)
class GroupPartition:
    """A partition that a group has read or is assigned."""

    partition: str
    committed: int | None  # the committed offset; of a share group its start offset
    next_offset: int | None
    lag: int | None
    client: str | None  # of the member that is assigned the partition
    member: str | None


@dataclass(frozen=True, slots=True)
class GroupDetail:
    """A group with members and offsets."""

    group: str
    state: str
    protocol: str  # consumer | classic | share | streams
    epoch: int | None  # None for a classic group
    assignor: str
    configs: dict[str, str | None]  # those that are not defaults
    members: tuple[MemberRow, ...]
    partitions: tuple[GroupPartition, ...]

    @property
    def lag(self) -> int | None:
        """The lag of all partitions; None if no lag is known."""
        known = [each.lag for each in self.partitions if each.lag is not None]
        return sum(known) if known else None

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of its partitions: those it has committed offsets in or is assigned."""
        return tuple(sorted({row.partition.rpartition("-")[0] for row in self.partitions}))

    @property
    def is_share(self) -> bool:
        return self.protocol == "share"

    @property
    def reads_by_partition(self) -> bool:
        """True if members are assigned partitions: neither whole topics nor tasks."""
        return self.protocol in ("consumer", "classic")


async def list_groups(admin: Admin) -> list[GroupRow]:
    """Return all groups, sorted by id."""
    listings = await admin.list_consumer_groups()
    return sorted(
        (GroupRow(each.group_id, each.state, each.group_type) for each in listings), key=lambda row: row.group
    )


async def group_type(admin: Admin, group_id: str) -> str:
    """Return the type of a group; of one that does not exist "consumer"."""
    types = {each.group_id: each.group_type for each in await admin.list_consumer_groups()}
    return types.get(group_id, "consumer")


async def is_share_group(admin: Admin, group_id: str) -> bool:
    """Return True for a share group."""
    return await group_type(admin, group_id) == "share"


async def describe_group(admin: Admin, group_id: str) -> GroupDetail:
    """Return a group. Raises KafkaError(GROUP_ID_NOT_FOUND)."""
    reading = await _read(admin, group_id, await group_type(admin, group_id))
    return reading.completed(await _ends(admin, reading.partitions))


@dataclass(frozen=True, slots=True)
class _Reading:
    """A group as its own requests describe it; the ends of its partitions complete it."""

    partitions: frozenset[TopicPartition]  # whose ends are needed
    completed: Callable[[Mapping[TopicPartition, int]], GroupDetail]


async def _read(
    admin: Admin, group_id: str, kind: str, description: ConsumerGroupDescription | None = None
) -> _Reading:
    if kind == "share":
        detail = await _describe_share(admin, group_id)
        return _Reading(frozenset(), lambda _: detail)
    if kind == "streams":
        return await _read_streams(admin, group_id)
    if description is None:
        description = (await admin.describe_consumer_groups([group_id]))[group_id]
    return await _read_consumer(admin, description, kind)


async def describe_all(admin: Admin) -> list[GroupDetail]:
    """Return all groups that the caller may describe; one that is deleted meanwhile is left out."""
    return await describe_rows(admin, await list_groups(admin))


async def describe_rows(admin: Admin, rows: Sequence[GroupRow]) -> list[GroupDetail]:
    """Return these groups; those that the caller may not describe, or that were deleted meanwhile, are left out.

    A request for the offsets of each group; their descriptions come many at a time, and the ends of all partitions
    together. Groups of the types share and streams are described one by one.
    """
    descriptions = await _descriptions(admin, [row.group for row in rows if row.type in ("consumer", "classic")])
    limit = asyncio.Semaphore(_AT_ONCE)

    async def read(row: GroupRow) -> _Reading | None:
        async with limit:
            try:
                return await _read(admin, row.group, row.type, descriptions.get(row.group))
            except KafkaError as error:
                if error.code in _LEFT_OUT:
                    return None
                raise

    readings = [reading for reading in await asyncio.gather(*(read(row) for row in rows)) if reading is not None]
    ends = await _ends(admin, {partition for reading in readings for partition in reading.partitions})
    return [reading.completed(ends) for reading in readings]


async def _descriptions(admin: Admin, group_ids: Sequence[str]) -> dict[str, ConsumerGroupDescription]:
    """Return descriptions by id; without those that were asked for together with a group that has none to give."""
    descriptions: dict[str, ConsumerGroupDescription] = {}
    for start in range(0, len(group_ids), _DESCRIBED_AT_ONCE):
        try:
            descriptions |= await admin.describe_consumer_groups(group_ids[start : start + _DESCRIBED_AT_ONCE])
        except KafkaError as error:
            if error.code not in _LEFT_OUT:
                raise
    return descriptions


async def _read_consumer(admin: Admin, group: ConsumerGroupDescription, kind: str) -> _Reading:
    group_id = group.group_id
    committed = await admin.list_consumer_group_offsets(group_id)
    owners = {partition: member for member in group.members for partition in member.assignment}
    partitions = frozenset({*committed, *owners})
    # A group of which only offsets were set is classic, as the list says: no protocol has used it.
    is_classic = kind == "classic" or group.group_epoch < 0
    return _Reading(
        partitions,
        lambda ends: GroupDetail(
            group_id,
            group.state,
            "classic" if is_classic else "consumer",
            None if is_classic else group.group_epoch,
            group.assignor,
            {},
            tuple(map(_member, group.members)),
            _partitions(partitions, committed, owners, ends),
        ),
    )


def _partitions(
    partitions: Iterable[TopicPartition],
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    owners: Mapping[TopicPartition, MemberDescription | StreamsMemberInfo],
    ends: Mapping[TopicPartition, int],
) -> tuple[GroupPartition, ...]:
    """Return partitions with offsets and owners."""
    rows = []
    for partition in sorted(partitions):
        offset = committed[partition].offset if partition in committed else None
        end, owner = ends.get(partition), owners.get(partition)
        rows.append(
            GroupPartition(
                str(partition),
                offset,
                end,
                None if offset is None or end is None else end - offset,
                owner.client_id if owner else None,
                owner.member_id if owner else None,
            )
        )
    return tuple(rows)


async def _read_streams(admin: Admin, group_id: str) -> _Reading:
    group = (await admin.describe_streams_groups([group_id]))[group_id]
    committed = await admin.list_consumer_group_offsets(group_id)
    configs = await admin.describe_group_configs(group_id)
    subtopologies = group.topology.subtopologies if group.topology is not None else ()
    sources = {each.subtopology_id: each.sources for each in subtopologies}
    owners = {
        TopicPartition(name, task.partition): member
        for member in group.members
        for task in member.tasks.active
        for name in sources.get(task.subtopology_id, ())
    }
    return _Reading(
        frozenset(committed),
        lambda ends: GroupDetail(
            group_id,
            group.state,
            "streams",
            group.group_epoch,
            "sticky",
            {name: entry.value for name, entry in sorted(configs.items()) if not entry.is_default},
            tuple(_streams_member(member, sources) for member in group.members),
            _partitions(committed, committed, owners, ends),
        ),
    )


def _streams_member(member: StreamsMemberInfo, sources: Mapping[str, tuple[str, ...]]) -> MemberRow:
    """Tasks as Kafka Streams writes them: subtopology, underscore, partition."""
    active = [f"{task.subtopology_id}_{task.partition}" for task in sorted(member.tasks.active)]
    standby = [f"{task.subtopology_id}_{task.partition} (standby)" for task in sorted(member.tasks.standby)]
    topics = {name for task in member.tasks.active for name in sources.get(task.subtopology_id, ())}
    return MemberRow(member.member_id, member.client_id, member.client_host, tuple(sorted(topics)), (*active, *standby))


async def _ends(admin: Admin, partitions: Set[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the ends of partitions, without those of topics that were deleted or are hidden."""
    if not partitions:
        return {}
    try:
        return await _latest(admin, partitions)
    except KafkaError as error:
        if error.code not in _NO_ENDS:
            raise
    ends: dict[TopicPartition, int] = {}
    for topic in {partition.topic for partition in partitions}:
        try:
            ends |= await _latest(admin, [partition for partition in partitions if partition.topic == topic])
        except KafkaError as error:
            if error.code not in _NO_ENDS:
                raise
    return ends


async def _latest(admin: Admin, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    latest = await admin.list_offsets(dict.fromkeys(partitions, "latest"))
    return {partition: at.offset for partition, at in latest.items()}


async def _describe_share(admin: Admin, group_id: str) -> GroupDetail:
    group = (await admin.describe_share_groups([group_id]))[group_id]
    offsets = await admin.list_share_group_offsets(group_id)
    configs = await admin.describe_group_configs(group_id)
    rows = [
        GroupPartition(
            str(place),
            at.start_offset if at.start_offset >= 0 else None,
            at.start_offset + at.lag if at.start_offset >= 0 and at.lag >= 0 else None,
            None if at.lag < 0 else at.lag,
            None,
            None,
        )
        for place, at in sorted(offsets.items())
    ]
    return GroupDetail(
        group_id,
        group.state,
        "share",
        group.group_epoch,
        group.assignor,
        {name: entry.value for name, entry in sorted(configs.items()) if not entry.is_default},
        tuple(map(_member, group.members)),
        tuple(rows),
    )


def _member(member: MemberDescription) -> MemberRow:
    return MemberRow(
        member.member_id,
        member.client_id,
        member.client_host,
        tuple(sorted(member.subscribed_topics)),
        tuple(str(each) for each in sorted(member.assignment)),
    )
