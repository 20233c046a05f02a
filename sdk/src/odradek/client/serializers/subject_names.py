"""The subject under which a schema is registered: Confluent's three strategies, or a fixed subject.

    topic_name          <topic>-key, <topic>-value     the default
    record_name         <record's full name>           a type may be in many topics, and a topic hold many types
    topic_record_name   <topic>-<record's full name>

A strategy needs the topic, which a producer passes to the serializers of this package (`for_topic`). A serializer that
is called directly, as a function of a value, needs a `subject` given as a string.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.errors import ErrorCode, KafkaError

SubjectName = Callable[[str, bool, str], str]
"""(topic, whether it is the key, the record's full name or "") -> subject."""


def topic_name(topic: str, is_key: bool, record: str) -> str:
    return f"{topic}-{'key' if is_key else 'value'}"


def record_name(topic: str, is_key: bool, record: str) -> str:
    return _named(record)


def topic_record_name(topic: str, is_key: bool, record: str) -> str:
    return f"{topic}-{_named(record)}"


def _named(record: str) -> str:
    if not record:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, "the schema has no name (a record's name, or JSON's title): use topic_name"
        )
    return record


class OfTopic:
    """Base of serializers with a subject. Subclasses set `_subject` and `_record`, and implement `_serialize`."""

    _subject: str | SubjectName
    _record: str

    def _serialize(self, value: Any, subject: str) -> bytes | None:
        raise NotImplementedError

    def for_topic(self, topic: str, is_key: bool) -> Callable[[Any], bytes | None]:
        """Return the serializer for keys or values of one topic. Called by a producer."""
        subject = self._subject
        name = subject if isinstance(subject, str) else subject(topic, is_key, self._record)
        return lambda value: self._serialize(value, name)

    def __call__(self, value: Any) -> bytes | None:
        if not isinstance(self._subject, str):
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                "the subject depends on the topic: give subject='...', or let a producer serialize",
            )
        return self._serialize(value, self._subject)
