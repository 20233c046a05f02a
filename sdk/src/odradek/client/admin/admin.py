"""The asynchronous admin client: public as odradek.aio.Admin, run by the synchronous face.

A call over several topics or groups does everything that it can, and then raises the first error, by name. If an
attempt got no answer, a later "already exists" or "does not exist" counts as success: the goal is reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from odradek.client.admin.change import names_of, raise_for
from odradek.client.admin.cluster import ClusterAdmin
from odradek.client.admin.security import SecurityAdmin
from odradek.client.admin.tables import TableAdmin
from odradek.client.admin.triggers import TriggerAdmin
from odradek.client.config import AdminConfig
from odradek.client.connection import Connection, TopicMetadata
from odradek.client.messages import admin as calls
from odradek.client.messages import classic_groups as classic_group_calls
from odradek.client.messages import offsets as offset_calls
from odradek.client.messages import share_admin as share_calls
from odradek.client.messages import streams_admin as streams_calls
from odradek.client.types import (
    ConsumerGroupDescription,
    NewTopic,
    OffsetAndTimestamp,
    StreamsGroupDescription,
    TopicDescription,
)
from odradek.errors import ErrorCode, KafkaError
from odradek.model.group import GroupListing
from odradek.model.log import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from odradek.model.topic import ConfigEntry
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition

R = TypeVar("R")

_DEFAULT_SOURCE = 5  # ConfigSource.DEFAULT_CONFIG
_OWN_SOURCES = (1, 8)  # ConfigSource.DYNAMIC_TOPIC_CONFIG, GROUP_CONFIG: of the resource itself

# The response of DeleteRecords has codes without messages.
_DELETE_RECORDS_MESSAGES = {
    int(ErrorCode.OFFSET_OUT_OF_RANGE): "records can be deleted only up to the high watermark",
    int(ErrorCode.POLICY_VIOLATION): "the topic is only compacted: delete its records by tombstones",
}

OffsetSpec = int | str
"""A timestamp in ms, "earliest" or "latest"."""

_SPECS = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}


class Admin(SecurityAdmin, ClusterAdmin, TriggerAdmin, TableAdmin):
    """Manage topics, groups, ACLs, triggers and tables. Use it as an async context manager, or `start` and `close` it.

    A call over several topics or groups does everything that it can, and then raises the first error, by name.

    Raises:
        KafkaError: INVALID_CONFIG for a configuration that is unknown or cannot work.
    """

    def __init__(self, config: AdminConfig | Mapping[str, Any] | None = None, /, **configs: Any) -> None:
        self.config = AdminConfig.given(config, configs)
        self._connection = Connection(self.config)

    async def start(self) -> Self:
        """Connect to the service.

        Raises:
            KafkaError: BROKER_NOT_AVAILABLE and others; the message names the address.
        """
        await self._connection.connect()
        return self

    async def close(self) -> None:
        """Release connections."""
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- topics ---------------------------------------------------------------------------------------------------

    async def create_topics(
        self, topics: Iterable[NewTopic | str] | str, *, validate_only: bool = False, if_not_exists: bool = False
    ) -> None:
        """Create topics.

        Args:
            topics: the topics with their partition counts and configurations, or names alone.
            validate_only: check the request and create nothing.
            if_not_exists: leave a topic that exists as it is, and succeed.

        Raises:
            KafkaError: TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS, INVALID_CONFIG ...
        """
        wanted = [_new_topic(topic) for topic in ([topics] if isinstance(topics, str) else topics)]
        request = calls.create_topics_request(
            [(topic.name, topic.num_partitions, topic.replication_factor, topic.configs) for topic in wanted],
            timeout_ms=self.config.request_timeout_ms,
            validate_only=validate_only,
        )
        await self._change(
            request,
            calls.CreateTopicsResponse,
            "CreateTopics",
            lambda response: [(f"topic {t.name!r}", t.error_code, t.error_message) for t in response.topics],
            reached=ErrorCode.TOPIC_ALREADY_EXISTS,
            accepts_reached=if_not_exists,
        )
        for topic in wanted:
            self._connection.metadata.forget(topic.name)

    async def delete_topics(self, topics: Iterable[str]) -> None:
        """Delete topics with all their records.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION ...
        """
        names = names_of(topics)
        await self._change(
            calls.delete_topics_request(names, timeout_ms=self.config.request_timeout_ms),
            calls.DeleteTopicsResponse,
            "DeleteTopics",
            lambda response: [(f"topic {t.name!r}", t.error_code, t.error_message) for t in response.responses],
            reached=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )
        for name in names:
            self._connection.metadata.forget(name)

    async def create_partitions(self, counts: Mapping[str, int]) -> None:
        """Raise the number of partitions: topic -> new total.

        Raises:
            KafkaError: INVALID_PARTITIONS ...
        """
        await self._change(
            calls.create_partitions_request(counts, timeout_ms=self.config.request_timeout_ms),
            calls.CreatePartitionsResponse,
            "CreatePartitions",
            lambda response: [(f"topic {t.name!r}", t.error_code, t.error_message) for t in response.results],
            reached=None,
        )
        for name in counts:
            self._connection.metadata.forget(name)

    async def delete_records(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete all records below an offset of each partition; -1 means its high watermark.

        Returns the new log start offset (Kafka's low watermark) of each partition.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE above the high watermark, POLICY_VIOLATION for a topic that is only
                compacted, UNKNOWN_TOPIC_OR_PARTITION.
        """
        wanted = {TopicPartition(*tp): offset for tp, offset in offsets.items()}
        low_watermarks: dict[TopicPartition, int] = {}

        def results(response: calls.DeleteRecordsResponse) -> Iterable[tuple[str, int, str | None]]:
            for topic in response.topics:
                for partition in topic.partitions:
                    tp = TopicPartition(str(topic.name), int(partition.partition_index))
                    low_watermarks[tp] = int(partition.low_watermark)
                    yield (
                        f"partition {tp}",
                        partition.error_code,
                        _DELETE_RECORDS_MESSAGES.get(int(partition.error_code)),
                    )

        if wanted:
            await self._change(
                calls.delete_records_request(wanted, timeout_ms=self.config.request_timeout_ms),
                calls.DeleteRecordsResponse,
                "DeleteRecords",
                results,
                reached=None,
            )
        return low_watermarks

    async def list_topics(self) -> list[str]:
        """Return the names of all topics, sorted."""
        return sorted(await self._connection.metadata.refresh(None))

    async def describe_topics(self, topics: Iterable[str] | None = None) -> dict[str, TopicDescription]:
        """Return descriptions of topics by name; None describes all topics.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION if one does not exist.
        """
        topics_by_name = await self._connection.metadata.refresh(None if topics is None else names_of(topics))
        described = {}
        for name, topic in topics_by_name.items():
            if isinstance(topic, KafkaError):
                raise topic
            described[name] = _description(topic)
        return described

    async def alter_topic_configs(self, topic: str, values: Mapping[str, str], *, delete: Iterable[str] = ()) -> None:
        """Set configurations of a topic, and reset those in `delete` to their defaults.

        Raises:
            KafkaError: INVALID_CONFIG, UNKNOWN_TOPIC_OR_PARTITION.
        """
        await self._change(
            calls.alter_configs_request(calls.TOPIC_RESOURCE, topic, values, names_of(delete)),
            calls.IncrementalAlterConfigsResponse,
            "IncrementalAlterConfigs",
            lambda response: [
                (f"topic {topic!r}", result.error_code, result.error_message) for result in response.responses
            ],
            reached=None,
        )

    async def describe_configs(
        self, topics: Iterable[str], *, names: Iterable[str] | None = None
    ) -> dict[str, dict[str, ConfigEntry]]:
        """Return the configurations of topics by name, defaults included.

        Args:
            names: of the configurations to return, without documentation and default; None returns all, with both.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION ...
        """
        response = await self._connection.call(
            calls.describe_configs_request(names_of(topics), None if names is None else names_of(names)),
            calls.DescribeConfigsResponse,
            "DescribeConfigs",
        )
        described = {}
        for result in response.results:
            raise_for(f"topic {result.resource_name!r}", result.error_code, result.error_message)
            described[result.resource_name] = _config_entries(result)
        return described

    async def list_offsets(
        self, partitions: Mapping[TopicPartition, OffsetSpec]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return offsets of partitions: "earliest", "latest", or the first at or after a timestamp in ms."""
        timestamps = {}
        for partition, spec in partitions.items():
            if isinstance(spec, str) and spec not in _SPECS:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, f"{spec!r} is neither 'earliest', 'latest' nor a timestamp in ms"
                )
            timestamps[TopicPartition(*partition)] = _SPECS[spec] if isinstance(spec, str) else spec
        return await offset_calls.list_offsets(self._connection, timestamps)

    # --- groups ---------------------------------------------------------------------------------------------------

    async def list_consumer_groups(self, states: Iterable[str] = ()) -> list[GroupListing]:
        """Return all groups, or those in the given states."""

        def check(response: calls.ListGroupsResponse) -> None:
            raise_for("groups", response.error_code, None)

        response = await self._connection.call(
            calls.list_groups_request(names_of(states)), calls.ListGroupsResponse, "ListGroups", check=check
        )
        return [
            GroupListing(str(group.group_id), group.group_state, group.group_type, group.protocol_type)
            for group in response.groups
        ]

    async def describe_consumer_groups(self, group_ids: Iterable[str]) -> dict[str, ConsumerGroupDescription]:
        """Return descriptions of groups by id, of the consumer protocol and of the classic one (`group_epoch` -1).

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND if one does not exist, or is a share group or a streams group.
        """
        wanted_ids = names_of(group_ids)

        def check(response: calls.ConsumerGroupDescribeResponse) -> None:
            for group in response.groups:
                if int(group.error_code) != ErrorCode.GROUP_ID_NOT_FOUND:  # it may be a classic one
                    raise_for(f"group {group.group_id!r}", group.error_code, group.error_message)

        response = await self._connection.call(
            calls.describe_groups_request(wanted_ids),
            calls.ConsumerGroupDescribeResponse,
            "ConsumerGroupDescribe",
            check=check,
        )
        described = {
            str(group.group_id): calls.group_description(group) for group in response.groups if not group.error_code
        }
        others = [group_id for group_id in wanted_ids if group_id not in described]
        return described if not others else described | await self._describe_classic_groups(others)

    async def _describe_classic_groups(self, group_ids: Sequence[str]) -> dict[str, ConsumerGroupDescription]:
        response = await self._connection.call(
            classic_group_calls.describe_classic_groups_request(group_ids),
            classic_group_calls.DescribeGroupsResponse,
            "DescribeGroups",
            check=_raise_for_groups,
        )
        return {str(group.group_id): classic_group_calls.classic_group_description(group) for group in response.groups}

    async def list_consumer_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return committed offsets of a group; None returns all of them."""
        return await offset_calls.fetch_committed(self._connection, group_id, partitions)

    async def alter_consumer_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int]
    ) -> None:
        """Commit offsets of a group without members.

        Raises:
            KafkaError: UNKNOWN_MEMBER_ID if it has members.
        """
        await offset_calls.commit(
            self._connection,
            group_id,
            {p: OffsetAndMetadata(o) if isinstance(o, int) else o for p, o in offsets.items()},
        )

    async def delete_consumer_groups(self, group_ids: Iterable[str]) -> None:
        """Delete groups without members, of any type.

        Raises:
            KafkaError: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND.
        """
        await self._change(
            calls.delete_groups_request(names_of(group_ids)),
            calls.DeleteGroupsResponse,
            "DeleteGroups",
            lambda response: [(f"group {group.group_id!r}", group.error_code, None) for group in response.results],
            reached=ErrorCode.GROUP_ID_NOT_FOUND,
        )

    # --- share groups ---------------------------------------------------------------------------------------------

    async def describe_share_groups(self, group_ids: Iterable[str]) -> dict[str, ConsumerGroupDescription]:
        """Return descriptions of share groups by id.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND if one does not exist.
        """
        response = await self._connection.call(
            share_calls.describe_share_groups_request(names_of(group_ids)),
            share_calls.ShareGroupDescribeResponse,
            "ShareGroupDescribe",
            check=_raise_for_groups,
        )
        return {str(group.group_id): share_calls.share_group_description(group) for group in response.groups}

    async def describe_streams_groups(self, group_ids: Iterable[str]) -> dict[str, StreamsGroupDescription]:
        """Return descriptions of streams groups by id: topology, members and their tasks.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND if one does not exist.
        """
        response = await self._connection.call(
            streams_calls.describe_streams_groups_request(names_of(group_ids)),
            streams_calls.StreamsGroupDescribeResponse,
            "StreamsGroupDescribe",
            check=_raise_for_groups,
        )
        return {str(group.group_id): streams_calls.streams_group_description(group) for group in response.groups}

    async def list_share_group_offsets(self, group_id: str) -> dict[TopicPartition, share_calls.ShareGroupOffset]:
        """Return the start offset of a share group in each partition that it has read.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND.
        """
        response = await self._connection.call(
            share_calls.describe_share_offsets_request(group_id),
            share_calls.DescribeShareGroupOffsetsResponse,
            "DescribeShareGroupOffsets",
            check=_raise_for_groups,
        )
        return {
            TopicPartition(str(topic.topic_name), int(partition.partition_index)): share_calls.ShareGroupOffset(
                int(partition.start_offset), int(partition.lag)
            )
            for group in response.groups
            for topic in group.topics
            for partition in topic.partitions
        }

    async def alter_share_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the start offsets of a share group without members.

        Raises:
            KafkaError: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND.
        """
        await self._change(
            share_calls.alter_share_offsets_request(group_id, offsets),
            share_calls.AlterShareGroupOffsetsResponse,
            "AlterShareGroupOffsets",
            lambda response: [
                (f"share group {group_id!r}", response.error_code, response.error_message),
                *(
                    (f"{topic.topic_name}-{partition.partition_index}", partition.error_code, partition.error_message)
                    for topic in response.responses
                    for partition in topic.partitions
                ),
            ],
            reached=None,
        )

    async def describe_group_configs(self, group_id: str) -> dict[str, ConfigEntry]:
        """Return the configuration of a group by name, defaults included."""
        response = await self._connection.call(
            share_calls.describe_group_configs_request(group_id), calls.DescribeConfigsResponse, "DescribeConfigs"
        )
        [result] = response.results
        raise_for(f"group {group_id!r}", result.error_code, result.error_message)
        return _config_entries(result)

    async def alter_group_configs(
        self, group_id: str, values: Mapping[str, str], *, delete: Iterable[str] = ()
    ) -> None:
        """Set configurations of a group, and reset those in `delete` to their defaults.

        Raises:
            KafkaError: INVALID_CONFIG.
        """
        await self._change(
            calls.alter_configs_request(share_calls.GROUP_RESOURCE, group_id, values, names_of(delete)),
            calls.IncrementalAlterConfigsResponse,
            "IncrementalAlterConfigs",
            lambda response: [
                (f"group {group_id!r}", result.error_code, result.error_message) for result in response.responses
            ],
            reached=None,
        )


def _raise_for_groups(response: Any) -> None:
    """Raise the first error in the `groups` of a response."""
    for group in response.groups:
        raise_for(f"group {group.group_id!r}", group.error_code, group.error_message)


def _config_entries(result: Any) -> dict[str, ConfigEntry]:
    return {
        entry.name: ConfigEntry(
            entry.name,
            entry.value,
            entry.config_source == _DEFAULT_SOURCE,
            entry.read_only,
            int(entry.config_type),
            entry.documentation or "",
            _default_of(entry),
        )
        for entry in result.configs
    }


def _default_of(entry: Any) -> str | None:
    """Return the value that a reset leads to; None where the service does not say.

    Synonyms are in the order of precedence: the first one that is not the resource's own is what a reset leads to.
    """
    if entry.config_source not in _OWN_SOURCES:
        return entry.value if entry.value is None else str(entry.value)
    inherited = (synonym.value for synonym in entry.synonyms if synonym.source not in _OWN_SOURCES)
    return next((None if value is None else str(value) for value in inherited), None)


def _description(topic: TopicMetadata) -> TopicDescription:
    return TopicDescription(topic.name, topic.topic_id, topic.partition_count, topic.is_internal, topic.leaders)


def _new_topic(topic: object) -> NewTopic:
    if isinstance(topic, NewTopic):
        return topic
    if isinstance(topic, str):
        return NewTopic(topic)
    raise KafkaError(
        ErrorCode.INVALID_REQUEST, f"a topic to create is NewTopic(name, num_partitions) or a name, not {topic!r}"
    )
