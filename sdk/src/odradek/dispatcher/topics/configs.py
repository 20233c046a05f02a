"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs: of topics and groups; some read-only ones of the broker."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from odradek.dispatcher.context import Answer, Call
from odradek.dispatcher.store_errors import translated
from odradek.dispatcher.topics.broker_configs import broker_entries
from odradek.engine.catalog.topics import check_name
from odradek.engine.groups.configs import DEAD_LETTER_TOPIC
from odradek.errors import ErrorCode, KafkaError
from odradek.model.acl import CLUSTER, AclOperation, ResourceType
from odradek.model.topic import ConfigEntry, Topic

# Kafka's ConfigResource.Type, ConfigSource, ConfigType and AlterConfigOp.OpType.
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
_LISTED = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)
DYNAMIC_TOPIC_CONFIG, _STATIC_BROKER_CONFIG, _DEFAULT_CONFIG, _DYNAMIC_GROUP_CONFIG = 1, 4, 5, 8
_OWN_SOURCES = {
    TOPIC: DYNAMIC_TOPIC_CONFIG,
    BROKER: _STATIC_BROKER_CONFIG,
    BROKER_LOGGER: _STATIC_BROKER_CONFIG,
    GROUP: _DYNAMIC_GROUP_CONFIG,
}
_STRING, _LIST = 2, 7
_LEVELS = {"CRITICAL": "FATAL", "WARNING": "WARN"}  # of Python's logging, as log4j calls them
_LOGGERS = ("root", "odradek")
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


async def handle_describe_configs(call: Call) -> Answer:
    results = []
    for resource in call.message.resources:
        result = {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
        try:
            _require(call, AclOperation.DESCRIBE_CONFIGS, resource)
            with translated(call):
                entries = await _entries(call, resource)
        except KafkaError as error:
            result |= {"error_code": error.code, "error_message": error.message}
        else:
            wanted = resource.configuration_keys  # null and an empty list mean all
            result["configs"] = [
                describe_entry(
                    entry,
                    _OWN_SOURCES[resource.resource_type],
                    include_synonyms=call.message.include_synonyms,
                    include_documentation=getattr(call.message, "include_documentation", False),
                )
                for entry in entries
                if not wanted or entry.name in wanted
            ]
        results.append(result)
    return {"results": results}


def refuse_describe_configs(call: Call, code: ErrorCode, message: str) -> Answer:
    return {"results": _refused(call, code, message)}


async def _entries(call: Call, resource: Any) -> Sequence[ConfigEntry]:
    if resource.resource_type == TOPIC:
        check_name(resource.resource_name)
        topic = await call.engine.topics.resolve(resource.resource_name)
        return call.engine.topics.describe_configs(topic)
    if resource.resource_type == BROKER:
        if resource.resource_name:  # an empty name: the defaults of all brokers
            _check_broker(call, resource.resource_name)
        return broker_entries(call.engine.settings, call.cluster.broker.broker_id)
    if resource.resource_type == GROUP:
        _check_named(resource)
        return await call.engine.group_configs.describe(resource.resource_name)
    if resource.resource_type == BROKER_LOGGER:
        _check_broker(call, resource.resource_name)
        return _logger_entries()
    raise KafkaError(
        ErrorCode.INVALID_REQUEST,
        f"resources of type {resource.resource_type} have no configuration: use a topic, a group or a broker",
    )


def _check_broker(call: Call, name: str) -> None:
    if not name.removeprefix("+").isdecimal() or int(name) != call.cluster.broker.broker_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"broker {name!r} does not exist")


def _check_named(resource: Any) -> None:
    if not resource.resource_name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a resource to configure needs a name")


def _logger_entries() -> Sequence[ConfigEntry]:
    """The levels of this process. Read-only: another function would not know of a change."""
    levels = {name: logging.getLevelName(logging.getLogger(name).getEffectiveLevel()) for name in _LOGGERS}
    return [
        ConfigEntry(name, _LEVELS.get(level, level), is_default=False, is_read_only=True, config_type=_STRING)
        for name, level in levels.items()
    ]


def describe_entry(
    entry: ConfigEntry, own_source: int, *, include_synonyms: bool = False, include_documentation: bool = False
) -> dict[str, Any]:
    """Return one configuration in the form of DescribeConfigs and CreateTopics.

    Args:
        own_source: Kafka's ConfigSource of a value that is not the default.
    """
    source = _DEFAULT_CONFIG if entry.is_default else own_source
    synonyms = []
    if include_synonyms and not entry.is_default:
        synonyms.append({"name": entry.name, "value": entry.value, "source": own_source})
    if include_synonyms and entry.broker_config and entry.default is not None:
        synonyms.append({"name": entry.broker_config, "value": entry.default, "source": _DEFAULT_CONFIG})
    return {
        "name": entry.name,
        "value": entry.value,
        "read_only": entry.is_read_only,
        "config_source": source,
        "config_type": entry.config_type,
        "documentation": entry.documentation or None if include_documentation else None,
        "synonyms": synonyms,
    }


async def handle_alter_configs(call: Call) -> Answer:
    """Replace all overrides by the given values."""

    async def alter(topic: Topic | None, resource: Any) -> None:
        values = {config.name: _required(config) for config in resource.configs}
        if topic is None:
            _require_dead_letters(call, values)
            await call.engine.group_configs.alter(
                resource.resource_name, set=values, replaces=True, validate_only=call.message.validate_only
            )
            return
        gone = [name for name in topic.configs if name not in values]
        await call.engine.topics.alter_configs(
            topic.name, set=values, delete=gone, validate_only=call.message.validate_only
        )

    return await _alter_each(call, alter)


async def handle_incremental_alter_configs(call: Call) -> Answer:
    """Set, delete, or (for lists) extend or reduce each given value."""

    async def alter(topic: Topic | None, resource: Any) -> None:
        effective = {} if topic is None else {e.name: e for e in call.engine.topics.describe_configs(topic)}
        values, gone = {}, []
        for config in resource.configs:
            if config.config_operation == _DELETE:
                gone.append(config.name)
            elif config.config_operation == _SET:
                values[config.name] = _required(config)
            elif config.config_operation in (_APPEND, _SUBTRACT):
                values[config.name] = _changed_list(effective.get(config.name), config)
            else:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"unknown operation {config.config_operation}")
        if topic is None:
            _require_dead_letters(call, values)
            await call.engine.group_configs.alter(
                resource.resource_name, set=values, delete=gone, validate_only=call.message.validate_only
            )
            return
        await call.engine.topics.alter_configs(
            topic.name, set=values, delete=gone, validate_only=call.message.validate_only
        )

    return await _alter_each(call, alter)


async def handle_list_config_resources(call: Call) -> Answer:
    """List topics, broker and configured groups (KIP-1142). Version 0 asks for client metrics: there are none."""
    if call.api_version == 0:
        return {"config_resources": []}
    kinds = set(call.message.resource_types) or set(_LISTED)
    if not kinds <= set(_LISTED):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"resource types {sorted(kinds - set(_LISTED))} are not known")
    names: list[tuple[int, str]] = []
    if TOPIC in kinds:
        names += [(TOPIC, topic.name) for topic in await call.engine.topics.list()]
    names += [(kind, str(call.cluster.broker.broker_id)) for kind in (BROKER, BROKER_LOGGER) if kind in kinds]
    if GROUP in kinds:
        names += [(GROUP, group_id) for group_id in await call.engine.group_configs.list()]
    return {"config_resources": [{"resource_type": kind, "resource_name": name} for kind, name in names]}


def refuse_list_config_resources(call: Call, code: ErrorCode, message: str) -> Answer:
    return {"error_code": code}


def refuse_alter_configs(call: Call, code: ErrorCode, message: str) -> Answer:
    return {"responses": _refused(call, code, message)}


async def _alter_each(call: Call, alter: Any) -> Answer:
    counts = Counter((resource.resource_type, resource.resource_name) for resource in call.message.resources)
    results = []
    for resource in call.message.resources:
        resource_type, name = resource.resource_type, resource.resource_name
        result = {"resource_type": resource_type, "resource_name": name}
        try:
            _require(call, AclOperation.ALTER_CONFIGS, resource)
            if counts[resource_type, name] > 1 or len({c.name for c in resource.configs}) < len(resource.configs):
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name!r} or one of its values appears twice")
            if resource_type not in (TOPIC, GROUP):
                raise KafkaError(ErrorCode.INVALID_REQUEST, "only topics and groups can be configured by a client")
            _check_named(resource)
            if resource_type == TOPIC:
                check_name(name)
            with translated(call):
                topic = await call.engine.topics.resolve(name) if resource_type == TOPIC else None
                await alter(topic, resource)
        except KafkaError as error:
            result |= {"error_code": error.code, "error_message": error.message}
        results.append(result)
    return {"responses": results}


def _require(call: Call, operation: AclOperation, resource: Any) -> None:
    if resource.resource_type == TOPIC:
        call.access.require(operation, ResourceType.TOPIC, resource.resource_name)
    elif resource.resource_type == GROUP:
        call.access.require(operation, ResourceType.GROUP, resource.resource_name)
    else:
        call.access.require(operation, *CLUSTER)


def _require_dead_letters(call: Call, values: Mapping[str, str]) -> None:
    """Require WRITE on the dead-letter topic of a group: the service writes dead letters without a principal."""
    topic = values.get(DEAD_LETTER_TOPIC)
    if topic:
        call.access.require(AclOperation.WRITE, ResourceType.TOPIC, topic)


def _required(config: Any) -> str:
    if config.value is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{config.name} has no value: set one, or delete the configuration")
    value: str = config.value
    return value


def _changed_list(entry: ConfigEntry | None, config: Any) -> str:
    if entry is None or entry.config_type != _LIST:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{config.name} is not a list: use the operation SET")
    current = [part for part in (entry.value or "").split(",") if part]
    parts = _required(config).split(",")
    if config.config_operation == _APPEND:
        return ",".join([*current, *(part for part in parts if part not in current)])
    return ",".join(part for part in current if part not in parts)


def _refused(call: Call, code: ErrorCode, message: str) -> list[dict[str, Any]]:
    return [
        {
            "resource_type": resource.resource_type,
            "resource_name": resource.resource_name,
            "error_code": code,
            "error_message": message,
        }
        for resource in call.message.resources
    ]
