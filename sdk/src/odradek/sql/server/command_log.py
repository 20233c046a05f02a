"""The statements that make a server what it is, in a compacted topic of one partition.

    key      the number of the statement: the offset at which it was written, so that none is given twice
    value    {"statement": text, "properties": {name: value}, "about": "stream/NAME"}; none: it no longer counts

A record is written at the offset that follows what this server knows, or not at all: of two servers with one service id
the second to write is refused, and has to be restarted. So the log has one order and one author at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from odradek.client.admin.sync import Admin
from odradek.client.consumer.sync import Consumer
from odradek.client.producer.sync import Producer
from odradek.client.types import NewTopic
from odradek.errors import ErrorCode, KafkaError, OffsetConflict
from odradek.model.topic_partition import TopicPartition

TOPIC = "_odradek_sql_{service_id}_commands"
_POLL_MS = 500
_CONFIGS = {"cleanup.policy": "compact"}


@dataclass(frozen=True, slots=True)
class Command:
    """A statement that counts."""

    number: int
    statement: str
    about: str  # what it defines or changes: stream/NAME, table/NAME, type/NAME, query/ID
    properties: Mapping[str, str] = field(default_factory=dict)

    def document(self) -> bytes:
        found = {"statement": self.statement, "properties": dict(self.properties), "about": self.about}
        return json.dumps(found, ensure_ascii=False).encode()


class CommandLog(Protocol):
    """Where a server keeps its statements."""

    @property
    def next_number(self) -> int:
        """The number of the next statement."""
        ...

    def load(self) -> list[Command]:
        """Return the statements that count, in order."""
        ...

    def write(self, command: Command) -> None:
        """Add the next statement. Raises KafkaError; the statement is then not in the log, as far as is known."""
        ...

    def erase(self, numbers: Iterable[int]) -> None:
        """Let statements no longer count."""
        ...

    def close(self) -> None:
        """Release connections."""
        ...


class TopicCommandLog:
    """A log in a topic.

    Args:
        service_id: of the server; two that share a service have different ones.
        configs: of clients: address and credentials, or a transport.
    """

    def __init__(self, service_id: str, configs: Mapping[str, Any]) -> None:
        self._topic = TOPIC.format(service_id=service_id)
        self._place = TopicPartition(self._topic, 0)
        self._configs = dict(configs)
        self._producer: Producer | None = None
        self._end = 0
        self._is_broken = False

    @property
    def next_number(self) -> int:
        return self._end

    def load(self) -> list[Command]:
        """Return the statements that count, in order; creates the topic if it is missing. Raises KafkaError."""
        with Admin(**self._configs) as admin:
            if self._topic not in admin.list_topics():
                admin.create_topics([NewTopic(self._topic, 1, configs=_CONFIGS)])
        found: dict[int, Command] = {}
        for key, value in self._read(None):
            number = int(key)
            found.pop(number, None)
            if value is not None:
                document = json.loads(value)
                about, properties = document["about"], document["properties"]
                found[number] = Command(number, document["statement"], about, properties)
        return [found[number] for number in sorted(found)]

    def _read(self, start: int | None) -> list[tuple[bytes, bytes | None]]:
        """Return keys and values from an offset, or from the beginning, to the present end, which is kept."""
        with Consumer(**self._configs, isolation_level="read_committed") as consumer:
            consumer.assign([self._place])
            if start is None:
                consumer.seek_to_beginning(self._place)
            else:
                consumer.seek(self._place, start)
            end = consumer.end_offsets([self._place])[self._place]
            found: list[tuple[bytes, bytes | None]] = []
            while consumer.position(self._place) < end:
                for records in consumer.poll(timeout_ms=_POLL_MS).values():
                    found += [(bytes(each.key or b""), each.value) for each in records if each.offset < end]
        self._end = end
        return found

    def write(self, command: Command) -> None:
        self._append(command.number, command.document())

    def erase(self, numbers: Iterable[int]) -> None:
        for number in sorted(set(numbers)):
            self._append(number, None)

    def _append(self, number: int, value: bytes | None) -> None:
        if self._is_broken:
            raise KafkaError(ErrorCode.INVALID_REQUEST, _STALE.format(topic=self._topic))
        if self._producer is None:
            self._producer = Producer(**self._configs, linger_ms=0)
        key = str(number).encode()
        try:
            self._producer.send(self._topic, value, key, partition=0, expected_offset=self._end).result()
        except OffsetConflict:
            self._is_broken = True
            raise KafkaError(ErrorCode.INVALID_REQUEST, _STALE.format(topic=self._topic)) from None
        except KafkaError:
            if self._was_written(key, value):
                return
            raise
        self._end += 1

    def _was_written(self, key: bytes, value: bytes | None) -> bool:
        """Return True if a write whose answer was lost took place; if that cannot be told, nothing more is written."""
        try:
            found = self._read(self._end)
        except KafkaError:
            self._is_broken = True
            return False
        if found and found != [(key, value)]:
            self._is_broken = True
        return found == [(key, value)]

    def close(self) -> None:
        if self._producer is not None:
            self._producer.close()
            self._producer = None


_STALE = (
    "another server wrote to {topic}, or a write could not be confirmed: restart this server, "
    "and give each server a --service-id of its own"
)
