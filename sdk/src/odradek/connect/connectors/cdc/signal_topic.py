"""Signals from a topic: records whose key is `topic.prefix`, and whose value is JSON with a type and data.

    {"type": "execute-snapshot", "data": {"data-collections": ["public.orders"], "type": "incremental"}}

What was read is part of the source offset: a signal is carried out once, unless the task ends before the next offset
is stored. Watermarks of incremental snapshots stay in the table of signals.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from odradek.client.admin.sync import Admin
from odradek.client.consumer.sync import Consumer
from odradek.client.types import NewTopic
from odradek.connect.errors import ConnectError, RetriableError
from odradek.errors import ErrorCode, KafkaError
from odradek.model.topic_partition import TopicPartition

_log = logging.getLogger("odradek.connect.cdc")
# Whoever may not create topics may find it there.
_THERE = (ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


@contextmanager
def _told() -> Iterator[None]:
    """Turn the client's errors into those of tasks."""
    try:
        yield
    except KafkaError as error:
        error_type = RetriableError if error.is_retryable else ConnectError
        raise error_type(f"the topic of signals cannot be read: {error}") from error


class Signal(NamedTuple):
    """A signal, and the offset behind it. `data` is JSON."""

    kind: str
    data: str
    next_offset: int


class SignalTopic:
    """Reads the topic of signals, which is created if it is missing.

    Args:
        client: configuration of the service's clients.
        offset: where to begin; None: at the topic's beginning.

    Raises:
        RetriableError: the service is away.
        ConnectError: the topic cannot be created or read.
    """

    def __init__(self, options: Mapping[str, Any], client: Mapping[str, Any], offset: int | None) -> None:
        self._key = str(options["topic.prefix"]).encode()
        tp = TopicPartition(options["signal.kafka.topic"] or f"{options['topic.prefix']}-signal", 0)
        with _told():
            with Admin(**client) as admin:
                try:
                    admin.create_topics([NewTopic(tp.topic, num_partitions=1)])
                except KafkaError as error:
                    if error.code not in _THERE:
                        raise
            self._consumer = Consumer(**client, auto_offset_reset="earliest")
        self._consumer.assign([tp])
        if offset is not None:
            self._consumer.seek(tp, offset)

    def read(self) -> list[Signal]:
        """Return the signals that have come. Raises as the class."""
        with _told():
            polled = self._consumer.poll(0)
        made = []
        for record in (record for records in polled.values() for record in records):
            if record.key != self._key:
                continue
            try:
                document = json.loads(record.value or b"")
                made.append(Signal(document["type"], json.dumps(document.get("data", {})), record.offset + 1))
            except (ValueError, TypeError, KeyError):
                _log.warning("the signal at offset %d is left out: it is not a JSON object with a type", record.offset)
        return made

    def close(self) -> None:
        self._consumer.close()
