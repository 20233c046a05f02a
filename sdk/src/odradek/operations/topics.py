"""Topics: partitions with offsets, leaders and sizes, configurations, consumers; create, change, delete."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from odradek.client.admin.admin import Admin
from odradek.client.types import ConsumerGroupDescription, NewTopic, StreamsGroupDescription, TopicDescription
from odradek.errors import ErrorCode, KafkaError
from odradek.model.topic import ConfigEntry
from odradek.model.topic_partition import TopicPartition

_TYPES = {1: "boolean", 2: "string", 3: "int", 4: "short", 5: "long", 6: "double", 7: "list"}  # Kafka's ConfigType
_HIDDEN = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
_ABSENT = (*_HIDDEN, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
_GROUPS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A partition of a topic."""

    partition: int
    leader: int  # broker id; 0 is the fleet of functions
    log_start_offset: int
    next_offset: int  # the offset of the next record
    records: int  # next offset less log start: at most, since compaction leaves gaps
    size_bytes: int | None  # as stored; None if the caller may not see sizes


@dataclass(frozen=True, slots=True)
class ConfigRow:
    """A configuration of a topic or a group."""

    name: str
    value: str | None
    is_default: bool
    type: str  # Kafka's ConfigType, in lower case
    documentation: str
    default: str | None = None  # that a reset leads to; None where the service does not say


@dataclass(frozen=True, slots=True)
class TopicDetail:
    """A topic with its partitions and configurations."""

    name: str
    topic_id: str
    partitions: tuple[PartitionRow, ...]
    configs: tuple[ConfigRow, ...]

    @property
    def partition_count(self) -> int:
        return len(self.partitions)

    @property
    def records(self) -> int:
        """The records of all partitions."""
        return sum(each.records for each in self.partitions)

    @property
    def size_bytes(self) -> int | None:
        """The bytes of all partitions; None if the caller may not see sizes."""
        sizes = [each.size_bytes for each in self.partitions if each.size_bytes is not None]
        return sum(sizes) if sizes else None

    def config(self, name: str) -> str:
        """Return the value of a configuration, "" if it has none."""
        return next((each.value or "" for each in self.configs if each.name == name), "")


@dataclass(frozen=True, slots=True)
class TopicConsumer:
    """A group that has committed offsets in a topic."""

    group: str
    state: str
    type: str
    members: int
    lag: int | None


@dataclass(frozen=True, slots=True)
class Position:
    """How far a group has come in a partition."""

    group: str
    type: str  # consumer | classic | share | streams
    offset: int  # the committed offset; of a share group its start offset


def is_internal(topic: TopicDescription) -> bool:
    """Return True for a topic that a service or a tool keeps for itself: Kafka's, or of a name such as `_schemas`."""
    return topic.is_internal or topic.name.startswith("_")


async def describe_topic(admin: Admin, name: str, *, sizes: bool = True) -> TopicDetail:
    """Return a topic. Raises KafkaError(UNKNOWN_TOPIC_OR_PARTITION) ..."""
    topic = (await admin.describe_topics([name]))[name]
    places = topic.partitions
    begins, ends, configs, found = await asyncio.gather(
        admin.list_offsets(dict.fromkeys(places, "earliest")),
        admin.list_offsets(dict.fromkeys(places, "latest")),
        admin.describe_configs([name]),
        sizes_of(admin, [topic]) if sizes else _nothing(),
    )
    rows = [
        PartitionRow(
            each.partition,
            topic.leaders[each.partition] if each.partition < len(topic.leaders) else -1,
            begins[each].offset,
            ends[each].offset,
            ends[each].offset - begins[each].offset,
            found.get(each),
        )
        for each in places
    ]
    return TopicDetail(name, str(topic.topic_id), tuple(rows), config_rows(configs[name]))


async def _nothing() -> dict[TopicPartition, int]:
    return {}


async def sizes_of(admin: Admin, topics: Sequence[TopicDescription]) -> dict[TopicPartition, int]:
    """Return the bytes of the topics' partitions; empty if the caller may not see sizes."""
    try:
        return await admin.describe_log_dirs({topic.name: topic.partition_count for topic in topics})
    except KafkaError as error:
        if error.code in _HIDDEN:
            return {}
        raise


def config_rows(entries: Mapping[str, ConfigEntry]) -> tuple[ConfigRow, ...]:
    """Return configurations, sorted by name."""
    return tuple(
        ConfigRow(
            each.name,
            each.value,
            each.is_default,
            _TYPES.get(each.config_type, "string"),
            each.documentation,
            each.default,
        )
        for each in sorted(entries.values(), key=lambda entry: entry.name)
    )


def own_default(name: str) -> str | None:
    """Return Odradek's default of a topic's configuration; None for an unknown one, and where a setting decides.

    For what DescribeConfigs does not say: it has defaults of configurations alone that are also a broker's.
    """
    from odradek.engine.catalog.topic_configs import DEFINITIONS, PARTITIONS_PER_HEAD, TRANSACTION_OFFSETS

    is_fixed = name in DEFINITIONS and name not in (PARTITIONS_PER_HEAD, TRANSACTION_OFFSETS)
    return DEFINITIONS[name].default if is_fixed else None


async def configs_of(admin: Admin, topics: Sequence[str], names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return some configurations of topics; topics that were deleted or are hidden are left out."""
    if not topics:
        return {}
    try:
        described = await admin.describe_configs(topics, names=names)
    except KafkaError as error:
        if error.code not in _ABSENT:
            raise
        if len(topics) == 1:
            return {}
        parts = await asyncio.gather(*(configs_of(admin, [topic], names) for topic in topics))
        return {topic: configs for part in parts for topic, configs in part.items()}
    return {
        topic: {name: entry.value for name, entry in entries.items() if entry.value is not None}
        for topic, entries in described.items()
    }


async def create_topic(
    admin: Admin, name: str, partitions: int, configs: Mapping[str, str], *, if_not_exists: bool = False
) -> bool:
    """Create a topic; return False if it exists and `if_not_exists` is set.

    Args:
        partitions: -1 takes the service's default.

    Raises:
        KafkaError: TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS, INVALID_CONFIG ...
    """
    try:
        await admin.create_topics([NewTopic(name, partitions, configs=dict(configs))])
    except KafkaError as error:
        if if_not_exists and error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
            return False
        raise
    return True


async def change_configs(admin: Admin, topic: str, configs: Mapping[str, str]) -> None:
    """Set configurations of a topic; an empty value resets to the default."""
    values = {name: value for name, value in configs.items() if value}
    await admin.alter_topic_configs(topic, values, delete=configs.keys() - values.keys())


async def consumers_of(admin: Admin, topic: str, ends: Mapping[TopicPartition, int]) -> list[TopicConsumer]:
    """Return the groups that have committed offsets in a topic or are assigned its partitions, sorted by id.

    Args:
        ends: the next offset of each partition.
    """
    limit = asyncio.Semaphore(_GROUPS_AT_ONCE)
    listings = await admin.list_consumer_groups()

    async def look(group_id: str, state: str, kind: str) -> TopicConsumer | None:
        async with limit:
            try:
                if kind == "share":
                    starts = await admin.list_share_group_offsets(group_id)
                    lags = [at.lag for each, at in starts.items() if each.topic == topic]
                    lag = sum(lags) if lags and min(lags) >= 0 else None
                    assigned = _assigned((await admin.describe_share_groups([group_id]))[group_id])
                else:
                    committed = await admin.list_consumer_group_offsets(group_id)
                    lags = [max(0, ends[each] - at.offset) for each, at in committed.items() if each in ends]
                    lag = sum(lags)
                    if kind == "streams":
                        assigned = _read_by_tasks((await admin.describe_streams_groups([group_id]))[group_id])
                    else:
                        assigned = _assigned((await admin.describe_consumer_groups([group_id]))[group_id])
            except KafkaError as error:
                if error.code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_AUTHORIZATION_FAILED, *_HIDDEN):
                    return None
                raise
        members = sum(topic in topics for topics in assigned)
        return TopicConsumer(group_id, state, kind, members, lag) if lags or members else None

    found = await asyncio.gather(*(look(each.group_id, each.state, each.group_type) for each in listings))
    return sorted((each for each in found if each is not None), key=lambda each: each.group)


async def positions_in(admin: Admin, partition: TopicPartition) -> list[Position]:
    """Return the groups that have committed an offset in a partition, by offset and id."""
    limit = asyncio.Semaphore(_GROUPS_AT_ONCE)

    async def look(group_id: str, kind: str) -> Position | None:
        async with limit:
            try:
                if kind == "share":
                    start = (await admin.list_share_group_offsets(group_id)).get(partition)
                    offset = None if start is None or start.start_offset < 0 else start.start_offset
                else:
                    committed = await admin.list_consumer_group_offsets(group_id, [partition])
                    offset = committed[partition].offset if partition in committed else None
            except KafkaError as error:
                if error.code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_AUTHORIZATION_FAILED, *_HIDDEN):
                    return None
                raise
        return None if offset is None else Position(group_id, kind, offset)

    listings = await admin.list_consumer_groups()
    positions = await asyncio.gather(*(look(group.group_id, group.group_type) for group in listings))
    return sorted(
        (position for position in positions if position is not None),
        key=lambda position: (position.offset, position.group),
    )


def _assigned(group: ConsumerGroupDescription) -> list[set[str]]:
    """Return the topics that each member is assigned partitions of."""
    return [{each.topic for each in member.assignment} for member in group.members]


def _read_by_tasks(group: StreamsGroupDescription) -> list[set[str]]:
    """Return the topics that each member of a streams group reads."""
    subtopologies = group.topology.subtopologies if group.topology is not None else ()
    sources = {each.subtopology_id: each.sources for each in subtopologies}
    return [
        {name for task in member.tasks.active for name in sources.get(task.subtopology_id, ())}
        for member in group.members
    ]


async def offsets_of(
    admin: Admin, places: Sequence[TopicPartition]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Return the first and the next offset of partitions."""
    begins, ends = await asyncio.gather(
        admin.list_offsets(dict.fromkeys(places, "earliest")), admin.list_offsets(dict.fromkeys(places, "latest"))
    )
    return {place: begins[place].offset for place in places}, {place: ends[place].offset for place in places}


@dataclass(frozen=True, slots=True)
class Deletion:
    """The outcome of a deletion of records in one partition."""

    partition: str
    deleted: int
    log_start_offset: int


@dataclass(frozen=True, slots=True)
class DeletionPlan:
    """Partitions whose records below an offset are to be deleted; it was checked against all of them."""

    places: tuple[TopicPartition, ...]
    before: int  # -1: the end
    begins: Mapping[TopicPartition, int]


async def plan_deletion(admin: Admin, topic: str, partitions: Sequence[int], before: int) -> DeletionPlan:
    """Check an offset against all partitions, so that all of them change or none.

    Args:
        partitions: empty for all.
        before: offset of the first record to keep; -1 deletes all.

    Raises:
        KafkaError: UNKNOWN_TOPIC_OR_PARTITION, OFFSET_OUT_OF_RANGE.
    """
    count = (await admin.describe_topics([topic]))[topic].partition_count
    places = tuple(TopicPartition(topic, number) for number in sorted(set(partitions) or range(count)))
    if unknown := [place.partition for place in places if not 0 <= place.partition < count]:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"topic {topic!r} has partitions 0 to {count - 1}, not {unknown[0]}; nothing was deleted",
        )
    if before < -1:
        raise _out_of_range(before, "an offset cannot be negative; -1 is the end")
    begins, ends = await offsets_of(admin, places)
    if short := [f"{place} ends at offset {end}" for place, end in ends.items() if end < before]:
        raise _out_of_range(before, ", ".join(short))
    return DeletionPlan(places, before, begins)


def _out_of_range(before: int, why: str) -> KafkaError:
    return KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"--before {before}: {why}; nothing was deleted")


async def delete_records(admin: Admin, plan: DeletionPlan) -> list[Deletion]:
    """Delete the records of a plan. Raises KafkaError; `deleted_so_far` then says what was deleted."""
    after = await admin.delete_records(dict.fromkeys(plan.places, plan.before))
    return _deletions(plan, after)


async def deleted_so_far(admin: Admin, plan: DeletionPlan) -> list[Deletion]:
    """Return the outcome of a plan that was carried out in part."""
    return _deletions(plan, (await offsets_of(admin, plan.places))[0])


def _deletions(plan: DeletionPlan, after: Mapping[TopicPartition, int]) -> list[Deletion]:
    return [
        Deletion(str(place), max(after[place] - plan.begins[place], 0), after[place]) for place in sorted(plan.places)
    ]
