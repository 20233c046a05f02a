"""The session's port to topics, over an admin client."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from odradek.client.types import NewTopic
from odradek.errors import ErrorCode, KafkaError
from odradek.spark.admin import open_admin

_CONSUMERS = ("consumer", "classic")


class OpenTopics:
    """Topics of the store that source options name.

    Args:
        store: options of the source; only those that locate the store are used.
        bootstrap_servers: URL of the embedded service; None accesses the store directly, on AWS.
    """

    def __init__(self, store: Mapping[str, str], bootstrap_servers: str | None) -> None:
        self._admin = open_admin(store, bootstrap_servers)

    def partitions(self) -> Mapping[str, int]:
        """Return the partition count of each topic."""
        described = self._admin.describe_topics(self._admin.list_topics())
        return {name: each.partition_count for name, each in described.items()}

    def consumers(self) -> Mapping[str, list[int]]:
        """Return, by topic, how many members each group of consumers has that reads it now."""
        groups = [each.group_id for each in self._admin.list_consumer_groups() if each.group_type in _CONSUMERS]
        found: dict[str, list[int]] = {}
        for group in self._admin.describe_consumer_groups(groups).values() if groups else ():
            topics = Counter(topic for each in group.members for topic in {place.topic for place in each.assignment})
            for topic, members in topics.items():
                found.setdefault(topic, []).append(members)
        return found

    def create(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        """Create a topic; -1 partitions: the service's default."""
        self._admin.create_topics([NewTopic(name, partitions, configs=dict(configs))])

    def delete(self, name: str) -> None:
        """Delete a topic."""
        self._admin.delete_topics([name])

    def serve(self, name: str, topic: str, options: Mapping[str, Any]) -> None:
        """Serve a topic as a table, unless it is served so."""
        self._admin.serve_table(name, topic, **options)

    def unserve(self, name: str) -> None:
        """Serve a table no more, if it is served."""
        try:
            self._admin.drop_table(name)
        except KafkaError as error:
            if error.code is not ErrorCode.RESOURCE_NOT_FOUND:
                raise

    def close(self) -> None:
        """Release connections."""
        self._admin.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
