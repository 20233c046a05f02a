"""Topics that a source writes to: created as `topic.creation.*` says (KIP-158), and noted as used (KIP-558)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from odradek.client.types import NewTopic
from odradek.connect.config import java_regex, with_prefix
from odradek.connect.errors import ConfigError
from odradek.connect.state.state_topic import ensure_topic

_PREFIX = "topic.creation."
_OURS = ("partitions", "replication.factor", "include", "exclude")


class TopicCreation:
    """The groups of topics of one connector, the first one that matches counts. Raises ConfigError."""

    def __init__(self, client: Mapping[str, Any], configs: Mapping[str, Any]) -> None:
        self._client = client
        self._default = with_prefix(configs, f"{_PREFIX}default.")
        names = [
            group_name.strip()
            for group_name in str(configs.get(f"{_PREFIX}groups") or "").split(",")
            if group_name.strip()
        ]
        self._groups = [with_prefix(configs, f"{_PREFIX}{name}.") for name in names]
        for name, group in zip(names, self._groups, strict=True):
            if not group.get("include"):
                raise ConfigError({f"{_PREFIX}{name}.include": [f"{_PREFIX}{name}.include is required: patterns"]})
        self._seen: set[str] = set()

    def ensure(self, topic: str) -> None:
        """Create a topic unless it exists. Raises KafkaError."""
        if topic in self._seen:
            return
        ensure_topic(self._client, self.new_topic(topic))
        self._seen.add(topic)

    def new_topic(self, topic: str) -> NewTopic:
        """Return the topic with its partitions and configurations."""
        chosen = next((group for group in self._groups if _matches(group, topic)), {})
        topic_configs = {**self._default, **chosen}
        return NewTopic(
            topic,
            num_partitions=int(topic_configs.get("partitions", -1)),
            configs={name: str(value) for name, value in topic_configs.items() if name not in _OURS},
        )


def _matches(group: Mapping[str, Any], topic: str) -> bool:
    def listed(name: str) -> bool:
        patterns = [pattern.strip() for pattern in str(group.get(name) or "").split(",") if pattern.strip()]
        return any(re.fullmatch(java_regex(pattern), topic) for pattern in patterns)

    return listed("include") and not listed("exclude")


class UsedTopics:
    """Notes each topic once."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note, self._seen = note, set[str]()

    def use(self, topic: str) -> None:
        if topic not in self._seen:
            self._note(topic)
            self._seen.add(topic)
