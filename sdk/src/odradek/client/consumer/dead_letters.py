"""Dead letters: a handler for `deserialization_error_handler` that sends unreadable records to another topic.

The record is sent as it was read, with key, value, headers and timestamp. Headers say where it was and what failed:

    odradek.errors.topic, odradek.errors.partition, odradek.errors.offset     its location, as text
    odradek.errors.exception, odradek.errors.message                          class and text of the error

A batch that cannot be decoded becomes one dead letter without key and value: its message names the batch's offsets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.client.consumer.record import ConsumerRecord

PREFIX = "odradek.errors."


def dead_letters(producer: Any, topic: str) -> Callable[[ConsumerRecord, Exception], Any]:
    """Return a handler that sends the record to `topic`. `poll` waits for the acknowledgement.

    Args:
        producer: an `odradek.Producer`, or one of `odradek.aio` on the consumer's loop. It must have no serializers.
    """

    def send(record: ConsumerRecord, error: Exception) -> Any:
        why = {
            "topic": record.topic,
            "partition": str(record.partition),
            "offset": str(record.offset),
            "exception": type(error).__name__,
            "message": str(error),
        }
        headers = [*record.headers, *((PREFIX + name, text.encode()) for name, text in why.items())]
        timestamp_ms = None if record.timestamp_ms < 0 else record.timestamp_ms  # a batch has none
        return producer.send(topic, record.value, record.key, headers=headers, timestamp_ms=timestamp_ms)

    return send
