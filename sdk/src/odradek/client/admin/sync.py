"""The admin client's synchronous face. Each method is that of aio.Admin, run on one background loop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from odradek.client.admin import admin as aio
from odradek.client.admin.admin import OffsetSpec
from odradek.client.background_loop import BackgroundLoop
from odradek.client.config import AdminConfig
from odradek.client.documented import documented_by
from odradek.client.messages.share_admin import ShareGroupOffset
from odradek.client.types import ConsumerGroupDescription, NewTopic, OffsetAndTimestamp, TopicDescription
from odradek.model.acl import AclBinding, AclFilter
from odradek.model.group import GroupListing
from odradek.model.topic import ConfigEntry
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition


@documented_by(aio.Admin)
class Admin:
    """Manages topics and groups. Connects at once; use it as a context manager, or `close` it."""

    def __init__(self, config: AdminConfig | None = None, /, **configs: Any) -> None:
        self.config = AdminConfig.given(config, configs)
        self._loop = BackgroundLoop("odradek-admin")
        try:
            self._admin: aio.Admin = self._loop.call(_started(self.config))
        except BaseException:
            self._loop.close()
            raise

    def close(self) -> None:
        """Release connections and the thread; may be called twice."""
        if self._loop.is_closed:
            return
        try:
            self._loop.call(self._admin.close())
        finally:
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def create_topics(self, topics: Sequence[NewTopic], *, validate_only: bool = False) -> None:
        self._loop.call(self._admin.create_topics(topics, validate_only=validate_only))

    def delete_topics(self, topics: Iterable[str]) -> None:
        self._loop.call(self._admin.delete_topics(topics))

    def create_partitions(self, counts: Mapping[str, int]) -> None:
        self._loop.call(self._admin.create_partitions(counts))

    def delete_records(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return self._loop.call(self._admin.delete_records(offsets))

    def list_topics(self) -> list[str]:
        return self._loop.call(self._admin.list_topics())

    def describe_topics(self, topics: Iterable[str]) -> dict[str, TopicDescription]:
        return self._loop.call(self._admin.describe_topics(topics))

    def describe_configs(self, topics: Iterable[str]) -> dict[str, dict[str, ConfigEntry]]:
        return self._loop.call(self._admin.describe_configs(topics))

    def list_offsets(self, partitions: Mapping[TopicPartition, OffsetSpec]) -> dict[TopicPartition, OffsetAndTimestamp]:
        return self._loop.call(self._admin.list_offsets(partitions))

    def list_consumer_groups(self, states: Iterable[str] = ()) -> list[GroupListing]:
        return self._loop.call(self._admin.list_consumer_groups(states))

    def describe_consumer_groups(self, group_ids: Iterable[str]) -> dict[str, ConsumerGroupDescription]:
        return self._loop.call(self._admin.describe_consumer_groups(group_ids))

    def list_consumer_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        return self._loop.call(self._admin.list_consumer_group_offsets(group_id, partitions))

    def alter_consumer_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int]
    ) -> None:
        self._loop.call(self._admin.alter_consumer_group_offsets(group_id, offsets))

    def delete_consumer_groups(self, group_ids: Sequence[str]) -> None:
        self._loop.call(self._admin.delete_consumer_groups(group_ids))

    def describe_share_groups(self, group_ids: Iterable[str]) -> dict[str, ConsumerGroupDescription]:
        return self._loop.call(self._admin.describe_share_groups(group_ids))

    def list_share_group_offsets(self, group_id: str) -> dict[TopicPartition, ShareGroupOffset]:
        return self._loop.call(self._admin.list_share_group_offsets(group_id))

    def alter_share_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        self._loop.call(self._admin.alter_share_group_offsets(group_id, offsets))

    def describe_group_configs(self, group_id: str) -> dict[str, ConfigEntry]:
        return self._loop.call(self._admin.describe_group_configs(group_id))

    def alter_topic_configs(self, topic: str, values: Mapping[str, str], *, delete: Iterable[str] = ()) -> None:
        self._loop.call(self._admin.alter_topic_configs(topic, values, delete=delete))

    def alter_group_configs(self, group_id: str, values: Mapping[str, str], *, delete: Iterable[str] = ()) -> None:
        self._loop.call(self._admin.alter_group_configs(group_id, values, delete=delete))

    def create_user(self, name: str, password: str) -> None:
        self._loop.call(self._admin.create_user(name, password))

    def delete_user(self, name: str) -> None:
        self._loop.call(self._admin.delete_user(name))

    def list_users(self) -> list[str]:
        return self._loop.call(self._admin.list_users())

    def create_acls(self, acls: Sequence[AclBinding]) -> None:
        self._loop.call(self._admin.create_acls(acls))

    def describe_acls(self, wanted: AclFilter | None = None) -> list[AclBinding]:
        return self._loop.call(self._admin.describe_acls(wanted))

    def delete_acls(self, wanted: AclFilter) -> list[AclBinding]:
        return self._loop.call(self._admin.delete_acls(wanted))


async def _started(config: AdminConfig) -> aio.Admin:
    return await aio.Admin(config).start()
