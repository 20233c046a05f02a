"""Shared by converters over a schema registry: the registry, subjects, and schemas by id."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from odradek.client.serializers.registry import HttpRegistry, Registry, Schema
from odradek.client.serializers.subject_names import SubjectName, record_name, topic_name, topic_record_name
from odradek.columnar.typed.schema_prefix import encode_prefix
from odradek.connect.config import ConfigDef, Kind
from odradek.connect.converters.base import Converter
from odradek.connect.errors import ConfigError, DataError, RetriableError
from odradek.errors import FormatError, KafkaError

_STRATEGIES: Mapping[str, SubjectName] = {
    "TopicNameStrategy": topic_name,
    "RecordNameStrategy": record_name,
    "TopicRecordNameStrategy": topic_record_name,
}
_STRATEGY = "io.confluent.kafka.serializers.subject.TopicNameStrategy"


class RegisteredConverter(Converter):
    """Base of the converters whose bytes begin with the id of a schema."""

    config_def = (
        ConfigDef()
        .define(
            "schema.registry.url", Kind.LIST, [], "Address of the registry; by default the one of the service.",
            importance="HIGH",
        )
        .define("basic.auth.user.info", Kind.PASSWORD, None, "user:password, for a registry that asks for it.")
        .define("auto.register.schemas", Kind.BOOLEAN, True, "Whether a new schema is registered.")
        .define("use.latest.version", Kind.BOOLEAN, False, "Write with the latest schema of the subject.")
        .define("key.subject.name.strategy", Kind.CLASS, _STRATEGY, "How subjects of keys are named.")
        .define("value.subject.name.strategy", Kind.CLASS, _STRATEGY, "How subjects of values are named.")
    )  # fmt: skip

    def configure(self, configs: Mapping[str, Any], *, is_key: bool) -> None:
        super().configure(configs, is_key=is_key)
        name = str(self.configs[f"{'key' if is_key else 'value'}.subject.name.strategy"]).rpartition(".")[2]
        if name not in _STRATEGIES:
            raise ConfigError(f"unknown strategy {name!r} of subject names: {', '.join(_STRATEGIES)}")
        self._strategy = _STRATEGIES[name]
        self._registry: Registry | None = None

    @property
    def registry(self) -> Registry:
        """The registry; opened at the first use."""
        if self._registry is None:
            urls = self.configs["schema.registry.url"]
            if urls:
                user, _, password = (self.configs["basic.auth.user.info"] or "").partition(":")
                self._registry = HttpRegistry(urls[0], user=user or None, password=password)
            elif self.service_registry is not None:
                self._registry = self.service_registry()
            else:
                raise ConfigError({"schema.registry.url": ["schema.registry.url is required here"]})
        return self._registry

    @registry.setter
    def registry(self, registry: Registry) -> None:
        self._registry = registry

    def subject(self, topic: str, record: str) -> str:
        return self._strategy(topic, self.is_key, record)

    def written_id(self, topic: str, schema: Schema, record: str) -> int:
        """Return the id to write with. Raises RetriableError, DataError."""
        subject = self.subject(topic, record)
        registry = self.registry
        find = registry.register if self.configs["auto.register.schemas"] else registry.lookup
        return int(self.asked(lambda: find(subject, schema)))

    def asked(self, question: Callable[[], Any]) -> Any:
        """Return the registry's answer. Raises RetriableError if it cannot be reached, DataError if it refuses."""
        try:
            return question()
        except KafkaError as error:
            raise (RetriableError if error.is_retryable else DataError)(str(error)) from error

    @staticmethod
    def prefixed(schema_id: int, payload: bytes, indexes: list[int] | None = None) -> bytes:
        return encode_prefix(schema_id, indexes) + payload


def as_data_error(error: FormatError) -> DataError:
    """Return the error of bytes that have no schema id."""
    return DataError(str(error))
