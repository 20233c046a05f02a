"""Converts values to JSON by a registry's schemas, for the rest of the export.

    value      the record's fields as a JSON object; empty, which is not JSON, if the bytes do not match their schema
    original   the unchanged value, for a dead letter

Avro: times become ISO 8601 in UTC, bytes Base64, decimals and UUIDs text. Protobuf: dynamic_protobuf.py. A schema is
requested once per task. A registry that does not answer fails the micro-batch, which is run again; it causes no dead
letters.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

from odradek.errors import ErrorCode, KafkaError, OdradekError
from pyspark.sql.types import BinaryType, StructType

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

ORIGINAL = "original"
OBJECTS = {"avro": "Avro record", "protobuf": "Protobuf message"}
"""The names of values in messages, by format, for the formats that need a registry."""

_NO_JSON = b""


@dataclass(frozen=True, slots=True)
class RegistryAddress:
    """The address of the registry, and the format of the values: plain data for executors."""

    format: str  # one of OBJECTS
    url: str
    user: str = ""
    password: str = ""

    def deserializer(self) -> Callable[[bytes | None], Any]:
        """Return a deserializer. Raises KafkaError(INVALID_CONFIG): a wrong URL, or a missing package."""
        from odradek.client.serializers import AvroDeserializer, HttpRegistry
        from odradek.glue_jobs.export_table.dynamic_protobuf import DynamicProtobufDeserializer

        registry = HttpRegistry(self.url, user=self.user or None, password=self.password)
        return AvroDeserializer(registry) if self.format == "avro" else DynamicProtobufDeserializer(registry)


def values_as_json(records: DataFrame, address: RegistryAddress) -> DataFrame:
    """Return the records with their values as JSON, and the column `original`."""
    schema = StructType.fromJson(records.schema.jsonValue()).add(ORIGINAL, BinaryType())

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        deserialize = address.deserializer()
        for batch in batches:
            yield decode_batch(batch, deserialize)

    return records.mapInArrow(decode, schema)


def decode_batch(batch: pa.RecordBatch, deserialize: Callable[[bytes | None], Any]) -> pa.RecordBatch:
    """Convert an Arrow batch in the same way. Raises KafkaError if the registry does not answer."""
    import pyarrow as pa

    at = batch.schema.get_field_index("value")
    original = batch.column(at)
    values = pa.array([_as_json(value, deserialize) for value in original.to_pylist()], pa.binary())
    columns = [*batch.columns[:at], values, *batch.columns[at + 1 :], original.cast(pa.binary())]
    return pa.RecordBatch.from_arrays(columns, [*batch.schema.names, ORIGINAL])


def _as_json(data: bytes | None, deserialize: Callable[[bytes | None], Any]) -> bytes | None:
    if data is None:
        return None
    try:
        value = deserialize(data)
    except OdradekError as error:
        if getattr(error, "code", None) is not ErrorCode.INVALID_RECORD:
            raise
        return _NO_JSON
    if not isinstance(value, Mapping):
        return _NO_JSON  # the rows of a table have columns
    return json.dumps(plain(value), ensure_ascii=False).encode()


def plain(value: Any) -> Any:
    """Convert a deserialized value to one that JSON can represent."""
    if isinstance(value, Mapping):
        return {str(name): plain(element) for name, element in value.items()}
    if isinstance(value, list | tuple):
        return [plain(element) for element in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        in_utc = value.astimezone(UTC) if value.tzinfo is not None else value
        return in_utc.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal | UUID):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def address_of(value_format: str, url: str, user: str, password: str) -> RegistryAddress:
    """Return the address. Raises KafkaError(INVALID_CONFIG) if there is none."""
    if not url:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"--format {value_format} needs --registry, the registry's URL")
    address = RegistryAddress(value_format, url, user, password)
    address.deserializer()  # report a wrong URL, or a missing package, before anything is read
    return address
