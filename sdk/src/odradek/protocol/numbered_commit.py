"""The commit of a numbered batch on the wire: EndTxn with three private tagged fields (docs/formats/frames.md).

    EndTxn request 5+,   tag 10001, bytes    the uploads: batch id i64, then for each part topic id (16 bytes),
                                             partition i32, length i32 and that many bytes of tail entries
    EndTxn response 5+,  tag 10001, int64    1: this call added them; 0: they, or a later batch, were added before
                         tag 10002, string   the reason, beside an error code

The transactional id is the writer's key; there is no producer. Only a service that shares its object store with the
uploading processes accepts it: the embedded one, whose store has one writer. An Apache Kafka broker skips the tag and
refuses the producer id -1. The schemas here are kio's with these additional fields.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Sequence
from functools import cache
from typing import Any
from uuid import UUID

from odradek.protocol import kio_alone  # noqa: F401  # before kio

# isort: split
from kio.static.primitive import i64

from odradek.errors import ErrorCode, FormatError
from odradek.format.tail_entry import TailEntry, decode_tail_entries, encode_tail_entries
from odradek.model.topic_partition import PartitionId

Parts = Sequence[tuple[PartitionId, Sequence[TailEntry]]]

_UPLOADED_TAG = 10_001
_ADDED_TAG = 10_001
_MESSAGE_TAG = 10_002
_CONSTANTS = ("__type__", "__version__", "__flexible__", "__api_key__", "__header_schema__")
_BATCH_ID = struct.Struct(">q")
_PART = struct.Struct(
    ">"
    "16s"  # topic id
    "i"  # partition
    "i"  # length of the tail entries
)


@cache
def with_uploaded(request_schema: type[Any]) -> type[Any]:
    """Return an EndTxn request's schema with the field `uploaded`; versions without tags unchanged."""
    return _extended(request_schema, ("uploaded", bytes, "bytes", b"", _UPLOADED_TAG))


@cache
def with_added(response_schema: type[Any]) -> type[Any]:
    """Return an EndTxn response's schema with the fields `added` and `message`; versions without tags unchanged."""
    return _extended(
        response_schema,
        ("added", i64, "int64", i64(-1), _ADDED_TAG),
        ("message", str, "string", "", _MESSAGE_TAG),
    )


def encode_uploaded(batch_id: int, parts: Parts) -> bytes:
    """Encode the content of `uploaded`."""
    content = [_BATCH_ID.pack(batch_id)]
    for (topic_id, partition), entries in parts:
        packed = encode_tail_entries(entries)
        content += (_PART.pack(topic_id.bytes, partition, len(packed)), packed)
    return b"".join(content)


def decode_uploaded(content: bytes) -> tuple[int, list[tuple[PartitionId, tuple[TailEntry, ...]]]]:
    """Return the batch id and the uploads. Raises FormatError(INVALID_REQUEST)."""
    parts: list[tuple[PartitionId, tuple[TailEntry, ...]]] = []
    try:
        [batch_id] = _BATCH_ID.unpack_from(content)
        at = _BATCH_ID.size
        while at < len(content):
            topic_id, partition, length = _PART.unpack_from(content, at)
            at += _PART.size
            if length < 0 or at + length > len(content):
                raise ValueError("cut off")
            entries = tuple(decode_tail_entries(bytes(content[at : at + length])))
            parts.append((PartitionId(UUID(bytes=topic_id), partition), entries))
            at += length
    except (struct.error, ValueError, FormatError) as error:
        raise FormatError(f"the numbered batch cannot be decoded: {error}", ErrorCode.INVALID_REQUEST) from None
    return batch_id, parts


def _extended(schema: type[Any], *more: tuple[str, Any, str, Any, int]) -> type[Any]:
    if not schema.__flexible__:
        return schema
    fields: list[tuple[str, Any, Any]] = [
        (spec.name, spec.type, dataclasses.field(default=spec.default, metadata=spec.metadata))
        for spec in dataclasses.fields(schema)
    ]
    for name, annotation, kafka_type, default, tag in more:
        metadata = {"kafka_type": kafka_type, "tag": tag}
        fields.append((name, annotation, dataclasses.field(default=default, metadata=metadata)))
    return dataclasses.make_dataclass(
        schema.__name__,
        fields,
        namespace={constant: getattr(schema, constant) for constant in _CONSTANTS},
        frozen=True,
        slots=True,
        kw_only=True,
    )
