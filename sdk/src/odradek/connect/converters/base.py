"""The interface of converters: bytes of a topic to values with schemas, and back."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from odradek.client.serializers.registry import Registry
from odradek.connect.data.schema import Schema
from odradek.connect.data.values import SchemaAndValue
from odradek.connect.plugin import Plugin


class Converter(Plugin):
    """Base of converters of keys and values; most of them serve headers as well."""

    is_key = False
    service_registry: Callable[[], Registry] | None = None  # the registry of the worker's service; set by the worker

    def configure(self, configs: Mapping[str, Any], *, is_key: bool) -> None:
        """Take the configuration. Raises ConfigError."""
        self.configs = self.config_def.parse(configs)
        self.is_key = is_key

    @abstractmethod
    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the bytes to write, None for a tombstone. Raises DataError."""

    @abstractmethod
    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Return the value of bytes that were read. Raises DataError."""

    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the bytes of a header. Raises DataError."""
        return self.from_connect(topic, schema, value)

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        """Return the value of a header. Raises DataError."""
        return self.to_connect(topic, data)

    def close(self) -> None:
        """Release everything."""
