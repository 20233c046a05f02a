"""Names of topics for responses that identify topics by id."""

from __future__ import annotations

from uuid import UUID

from odradek.dispatcher.context import Call


class TopicNames:
    """Names of topics by id; empty for one that has been deleted."""

    def __init__(self, call: Call) -> None:
        self._topics = call.engine.topics
        self._names: dict[UUID, str] = {}

    async def of(self, topic_id: UUID) -> str:
        if topic_id not in self._names:
            topic = await self._topics.get_by_id(topic_id)
            self._names[topic_id] = "" if topic is None else topic.name
        return self._names[topic_id]
