"""Conditional produce on the wire: private tagged fields, never sent to a stock client (docs/formats/frames.md).

    Produce request 9+,  PartitionProduceData      tag 10001, int64   expected offset: append only if this is the next
    Produce request 9+,  PartitionProduceData      tag 10002, int64   chosen by: append only if the topic has not grown
                                                                      beyond so many partitions, by which the keys
                                                                      of the batch chose this one (decisions/0062)
    Produce response 9+, PartitionProduceResponse  tag 10001, int64   next offset, beside OFFSET_OUT_OF_RANGE: the
                                                                      actual end of the log

A peer skips an unknown tagged field (KIP-482), so an Apache Kafka broker would append without the condition. A client
therefore sends the expected offset only to Odradek. It can tell from the response: an OFFSET_OUT_OF_RANGE without the
field is not Odradek's. The schemas here are kio's with our fields; messages without them have the same bytes as before.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any

from odradek.protocol import kio_alone  # noqa: F401  # before kio

# isort: split
from kio.static.primitive import i64

from odradek.model.topic_partition import TopicPartition

FLEXIBLE_FROM = 9
EXPECTED_OFFSET_TAG = 10_001
CHOSEN_BY_TAG = 10_002
NEXT_OFFSET_TAG = 10_001
NONE = i64(-1)

_REQUEST = (
    ("PartitionProduceData", "expected_offset", EXPECTED_OFFSET_TAG),
    ("PartitionProduceData", "chosen_by", CHOSEN_BY_TAG),
)
_RESPONSE = ("PartitionProduceResponse", "next_offset", NEXT_OFFSET_TAG)
_CONSTANTS = ("__type__", "__version__", "__flexible__", "__api_key__", "__header_schema__")


@cache
def with_conditions(request_schema: type[Any]) -> type[Any]:
    """Return a Produce request's schema with the fields in each partition; older versions unchanged."""
    if request_schema.__flexible__:
        for field in _REQUEST:
            request_schema = _extended(request_schema, *field)
    return request_schema


@cache
def with_next_offset(response_schema: type[Any]) -> type[Any]:
    """Return a Produce response's schema with the field in each partition; older versions unchanged."""
    return _extended(response_schema, *_RESPONSE) if response_schema.__flexible__ else response_schema


def conditional(
    request: Any, expected_offsets: Mapping[TopicPartition, int], chosen_by: Mapping[TopicPartition, int]
) -> Any:
    """Return kio's Produce request (version 9 to 12) with the conditions of some partitions."""
    kio_schema: Any = type(request)
    schema = with_conditions(kio_schema)
    topic_type = _element(schema, "topic_data")
    partition_type = _element(topic_type, "partition_data")

    def partition(topic: str, data: Any) -> Any:
        tp = TopicPartition(topic, int(data.index))
        return partition_type(
            **_values(data),
            expected_offset=i64(expected_offsets.get(tp, NONE)),
            chosen_by=i64(chosen_by.get(tp, NONE)),
        )

    topics = tuple(
        topic_type(name=topic.name, partition_data=tuple(partition(topic.name, data) for data in topic.partition_data))
        for topic in request.topic_data
    )
    return schema(**{**_values(request), "topic_data": topics})


def _values(message: Any) -> dict[str, Any]:
    return {field.name: getattr(message, field.name) for field in dataclasses.fields(message)}


def _element(schema: type[Any], name: str) -> Any:
    """Return the struct in the array of that name."""
    return next(typing.get_args(field.type)[0] for field in dataclasses.fields(schema) if field.name == name)


def _extended(schema: type[Any], struct: str, name: str, tag: int) -> type[Any]:
    """Return the schema with the nested struct of that name extended by a tagged int64."""
    fields: list[tuple[str, Any, Any]] = []
    for field in dataclasses.fields(schema):
        field_type: Any = field.type
        element = typing.get_args(field_type)[0] if typing.get_origin(field_type) is tuple else None
        if dataclasses.is_dataclass(element):
            field_type = tuple[_extended(typing.cast("type[Any]", element), struct, name, tag), ...]  # type: ignore[misc]
        spec: Any = dataclasses.field(default=field.default, metadata=field.metadata)
        fields.append((field.name, field_type, spec))
    if schema.__name__ == struct:
        metadata = {"kafka_type": "int64", "tag": tag}
        fields.append((name, i64, dataclasses.field(default=NONE, metadata=metadata)))
    return dataclasses.make_dataclass(
        schema.__name__,
        fields,
        namespace={constant: getattr(schema, constant) for constant in _CONSTANTS},
        frozen=True,
        slots=True,
        kw_only=True,
    )
