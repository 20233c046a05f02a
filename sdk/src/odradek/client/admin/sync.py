"""The synchronous admin client. Each method runs that of aio.Admin on one background loop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from odradek.client.admin import admin as aio
from odradek.client.admin.admin import OffsetSpec
from odradek.client.config import AdminConfig
from odradek.client.messages.share_admin import ShareGroupOffset
from odradek.client.sync_face import SyncFace
from odradek.client.types import (
    ClusterDescription,
    ConsumerGroupDescription,
    NewTopic,
    OffsetAndTimestamp,
    StreamsGroupDescription,
    TopicDescription,
    TransactionDescription,
    TransactionListing,
)
from odradek.model.acl import AclBinding, AclFilter
from odradek.model.group import GroupListing
from odradek.model.quota import ClientQuotaSet, QuotaEntity
from odradek.model.table import ServedTable, TableStatus
from odradek.model.topic import ConfigEntry
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition
from odradek.model.trigger import Trigger, TriggerStatus


class Admin(SyncFace[aio.Admin], of=aio.Admin):
    """Manage topics, groups, users, quotas, ACLs, triggers and served tables.

    The constructor connects. Use it as a context manager, or `close` it.
    """

    def __init__(self, config: AdminConfig | Mapping[str, Any] | None = None, /, **configs: Any) -> None:
        self.config = AdminConfig.given(config, configs)
        super().__init__(lambda: aio.Admin(self.config).start())

    def create_topics(
        self, topics: Iterable[NewTopic | str] | str, *, validate_only: bool = False, if_not_exists: bool = False
    ) -> None:
        self._loop.call(self._client.create_topics(topics, validate_only=validate_only, if_not_exists=if_not_exists))

    def delete_topics(self, topics: Iterable[str]) -> None:
        self._loop.call(self._client.delete_topics(topics))

    def create_partitions(self, counts: Mapping[str, int]) -> None:
        self._loop.call(self._client.create_partitions(counts))

    def delete_records(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return self._loop.call(self._client.delete_records(offsets))

    def list_topics(self) -> list[str]:
        return self._loop.call(self._client.list_topics())

    def describe_topics(self, topics: Iterable[str] | None = None) -> dict[str, TopicDescription]:
        return self._loop.call(self._client.describe_topics(topics))

    def describe_configs(
        self, topics: Iterable[str], *, names: Iterable[str] | None = None
    ) -> dict[str, dict[str, ConfigEntry]]:
        return self._loop.call(self._client.describe_configs(topics, names=names))

    def list_offsets(self, partitions: Mapping[TopicPartition, OffsetSpec]) -> dict[TopicPartition, OffsetAndTimestamp]:
        return self._loop.call(self._client.list_offsets(partitions))

    def list_consumer_groups(self, states: Iterable[str] = ()) -> list[GroupListing]:
        return self._loop.call(self._client.list_consumer_groups(states))

    def describe_consumer_groups(self, group_ids: Iterable[str]) -> dict[str, ConsumerGroupDescription]:
        return self._loop.call(self._client.describe_consumer_groups(group_ids))

    def list_consumer_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        return self._loop.call(self._client.list_consumer_group_offsets(group_id, partitions))

    def alter_consumer_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int]
    ) -> None:
        self._loop.call(self._client.alter_consumer_group_offsets(group_id, offsets))

    def delete_consumer_groups(self, group_ids: Sequence[str]) -> None:
        self._loop.call(self._client.delete_consumer_groups(group_ids))

    def describe_share_groups(self, group_ids: Iterable[str]) -> dict[str, ConsumerGroupDescription]:
        return self._loop.call(self._client.describe_share_groups(group_ids))

    def describe_streams_groups(self, group_ids: Iterable[str]) -> dict[str, StreamsGroupDescription]:
        return self._loop.call(self._client.describe_streams_groups(group_ids))

    def list_share_group_offsets(self, group_id: str) -> dict[TopicPartition, ShareGroupOffset]:
        return self._loop.call(self._client.list_share_group_offsets(group_id))

    def alter_share_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        self._loop.call(self._client.alter_share_group_offsets(group_id, offsets))

    def describe_group_configs(self, group_id: str) -> dict[str, ConfigEntry]:
        return self._loop.call(self._client.describe_group_configs(group_id))

    def alter_topic_configs(self, topic: str, values: Mapping[str, str], *, delete: Iterable[str] = ()) -> None:
        self._loop.call(self._client.alter_topic_configs(topic, values, delete=delete))

    def alter_group_configs(self, group_id: str, values: Mapping[str, str], *, delete: Iterable[str] = ()) -> None:
        self._loop.call(self._client.alter_group_configs(group_id, values, delete=delete))

    def describe_client_quotas(self) -> ClientQuotaSet:
        return self._loop.call(self._client.describe_client_quotas())

    def alter_client_quotas(self, entity: QuotaEntity, values: Mapping[str, float | None]) -> None:
        self._loop.call(self._client.alter_client_quotas(entity, values))

    def create_user(self, name: str, password: str) -> None:
        self._loop.call(self._client.create_user(name, password))

    def delete_user(self, name: str) -> None:
        self._loop.call(self._client.delete_user(name))

    def list_users(self) -> list[str]:
        return self._loop.call(self._client.list_users())

    def create_acls(self, acls: Sequence[AclBinding]) -> None:
        self._loop.call(self._client.create_acls(acls))

    def describe_acls(self, wanted: AclFilter | None = None) -> list[AclBinding]:
        return self._loop.call(self._client.describe_acls(wanted))

    def delete_acls(self, wanted: AclFilter) -> list[AclBinding]:
        return self._loop.call(self._client.delete_acls(wanted))

    def describe_cluster(self) -> ClusterDescription:
        return self._loop.call(self._client.describe_cluster())

    def describe_log_dirs(self, partition_counts: Mapping[str, int]) -> dict[TopicPartition, int]:
        return self._loop.call(self._client.describe_log_dirs(partition_counts))

    def list_transactions(self, states: Iterable[str] = ()) -> list[TransactionListing]:
        return self._loop.call(self._client.list_transactions(states))

    def describe_transactions(self, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription]:
        return self._loop.call(self._client.describe_transactions(transactional_ids))

    def fence_producers(self, transactional_ids: Iterable[str]) -> None:
        self._loop.call(self._client.fence_producers(transactional_ids))

    def create_trigger(self, name: str, topic: str, function: str, **options: Any) -> Trigger:
        return self._loop.call(self._client.create_trigger(name, topic, function, **options))

    def list_triggers(self) -> list[Trigger]:
        return self._loop.call(self._client.list_triggers())

    def describe_trigger(self, name: str) -> TriggerStatus:
        return self._loop.call(self._client.describe_trigger(name))

    def pause_trigger(self, name: str) -> Trigger:
        return self._loop.call(self._client.pause_trigger(name))

    def resume_trigger(self, name: str) -> Trigger:
        return self._loop.call(self._client.resume_trigger(name))

    def reset_trigger(self, name: str, position: str, timestamp_ms: int = 0) -> dict[int, int]:
        return self._loop.call(self._client.reset_trigger(name, position, timestamp_ms))

    def delete_trigger(self, name: str) -> None:
        return self._loop.call(self._client.delete_trigger(name))

    # --- served tables; rows are read by odradek.Table ---------------------------------------------------------------

    def serve_table(self, name: str, topic: str = "", **options: Any) -> ServedTable:
        return self._loop.call(self._client.serve_table(name, topic, **options))

    def list_tables(self) -> list[ServedTable]:
        return self._loop.call(self._client.list_tables())

    def describe_table(self, name: str) -> TableStatus:
        return self._loop.call(self._client.describe_table(name))

    def stop_table(self, name: str) -> ServedTable:
        return self._loop.call(self._client.stop_table(name))

    def resume_table(self, name: str) -> ServedTable:
        return self._loop.call(self._client.resume_table(name))

    def drop_table(self, name: str) -> None:
        return self._loop.call(self._client.drop_table(name))
