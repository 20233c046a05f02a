"""A record on its way: converters and transforms of one task, between bytes in topics and records of connectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from odradek.client.consumer.record import ConsumerRecord
from odradek.client.serializers.registry import HttpRegistry, Registry
from odradek.connect import plugins
from odradek.connect.config import with_prefix
from odradek.connect.converters.base import Converter
from odradek.connect.data.values import SchemaAndValue
from odradek.connect.record import ConnectRecord, Header, SinkRecord, SourceRecord
from odradek.connect.settings import WorkerSettings
from odradek.connect.tasks.tolerance import Stage, Tolerance
from odradek.connect.transforms.chain import make_chain
from odradek.model.record import TimestampType

Sendable = tuple[str, int | None, bytes | None, bytes | None, list[tuple[str, bytes | None]], int | None]
"""topic, partition, key, value, headers, timestamp in ms."""


def make_converter(settings: WorkerSettings, configs: Mapping[str, Any], name: str) -> Converter:
    """Return the converter that a connector's configuration names, or else the worker's. Raises ConfigError."""
    own_configs, chosen = (configs, configs[name]) if configs.get(name) else (settings.originals, settings[name])
    made = plugins.converter(str(chosen))()
    made.service_registry = lambda: service_registry(settings.client)
    made.configure(with_prefix(own_configs, f"{name}."), is_key=name == "key.converter")
    return made


def service_registry(client: Mapping[str, Any]) -> Registry:
    """Return the schema registry of the service whose address and credentials these are."""
    keys = {name: value for name, value in client.items() if name.startswith("aws_") and value is not None}
    return HttpRegistry.discover(str(client["bootstrap_servers"]), **keys)


class Conversion:
    """The converters and transforms of one task. Raises ConfigError, MissingExtra."""

    def __init__(self, settings: WorkerSettings, configs: Mapping[str, Any], tolerance: Tolerance) -> None:
        self._tolerance = tolerance
        self._key = make_converter(settings, configs, "key.converter")
        self._value = make_converter(settings, configs, "value.converter")
        self._headers = make_converter(settings, configs, "header.converter")
        self._stages = make_chain(configs)

    def transformed(self, record: Any, original: Any) -> Any:
        """Return the record behind all transforms, None if one dropped it. Raises Skipped, ConnectError."""
        for stage in self._stages:
            record = self._tolerance.run(Stage.TRANSFORMATION, original, stage.transformation, _apply(stage, record))
            if record is None:
                return None
        return record

    def to_bytes(self, record: SourceRecord, original: SourceRecord) -> Sendable:
        """Return what a producer sends. Raises Skipped, ConnectError."""
        run, topic = self._tolerance.run, record.topic
        headers = [
            (
                header.key,
                run(Stage.HEADER_CONVERTER, original, self._headers, _header_bytes(self._headers, topic, header)),
            )
            for header in record.headers
        ]
        key = run(
            Stage.KEY_CONVERTER, original, self._key,
            lambda: self._key.from_connect(topic, record.key_schema, record.key),
        )  # fmt: skip
        value = run(
            Stage.VALUE_CONVERTER, original, self._value,
            lambda: self._value.from_connect(topic, record.value_schema, record.value),
        )  # fmt: skip
        return topic, record.partition, key, value, headers, record.timestamp_ms

    def to_record(self, read: ConsumerRecord) -> SinkRecord:
        """Return the record of bytes that were read. Raises Skipped, ConnectError."""
        run, topic = self._tolerance.run, read.topic
        key = run(Stage.KEY_CONVERTER, read, self._key, lambda: self._key.to_connect(topic, read.key))
        value = run(Stage.VALUE_CONVERTER, read, self._value, lambda: self._value.to_connect(topic, read.value))
        headers = []
        for name, data in read.headers:
            converted: SchemaAndValue = run(
                Stage.HEADER_CONVERTER, read, self._headers, _header_value(self._headers, topic, name, data)
            )
            headers.append(Header(name, converted.value, converted.schema))
        return SinkRecord(
            topic=topic,
            partition=read.partition,
            offset=read.offset,
            key=key.value,
            key_schema=key.schema,
            value=value.value,
            value_schema=value.schema,
            timestamp_ms=read.timestamp_ms if read.timestamp_ms >= 0 else None,
            timestamp_type="LogAppendTime" if read.timestamp_type is TimestampType.LOG_APPEND_TIME else "CreateTime",
            headers=tuple(headers),
            original=read,
        )

    def close(self) -> None:
        for stage in self._stages:
            stage.close()
        for converter in (self._key, self._value, self._headers):
            converter.close()


def _apply(stage: Any, record: ConnectRecord) -> Callable[[], ConnectRecord | None]:
    return lambda: stage.apply(record)


def _header_bytes(converter: Converter, topic: str, header: Header) -> Callable[[], bytes | None]:
    return lambda: converter.from_connect_header(topic, header.key, header.schema, header.value)


def _header_value(converter: Converter, topic: str, name: str, data: bytes | None) -> Callable[[], SchemaAndValue]:
    return lambda: converter.to_connect_header(topic, name, data)
