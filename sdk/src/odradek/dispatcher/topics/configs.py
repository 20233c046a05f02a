"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs: of topics and groups; some read-only ones of the broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from odradek.dispatcher.context import Answer, Call
from odradek.dispatcher.store_errors import translated
from odradek.engine.groups.configs import DEAD_LETTER_TOPIC
from odradek.errors import ErrorCode, KafkaError
from odradek.model.acl import CLUSTER, AclOperation, ResourceType
from odradek.model.topic import ConfigEntry, Topic

# Kafka's ConfigResource.Type, ConfigSource, ConfigType and AlterConfigOp.OpType.
TOPIC, BROKER, GROUP = 2, 4, 32
_DYNAMIC_TOPIC_CONFIG, _STATIC_BROKER_CONFIG, _DEFAULT_CONFIG = 1, 4, 5
_BOOLEAN, _INT, _LIST = 1, 3, 7
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
            wanted = resource.configuration_keys  # null means all
            result["configs"] = [
                describe_entry(entry, call.message.include_synonyms)
                for entry in entries
                if wanted is None or entry.name in wanted
            ]
        results.append(result)
    return {"results": results}


def refuse_describe_configs(call: Call, code: ErrorCode, message: str) -> Answer:
    return {"results": _refused(call, code, message)}


async def _entries(call: Call, resource: Any) -> Sequence[ConfigEntry]:
    if resource.resource_type == TOPIC:
        topic = await call.engine.topics.resolve(resource.resource_name)
        return call.engine.topics.describe_configs(topic)
    if resource.resource_type == BROKER:
        if resource.resource_name not in ("", str(call.cluster.broker.broker_id)):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"broker {resource.resource_name!r} does not exist")
        return _broker_entries(call)
    if resource.resource_type == GROUP:
        return await call.engine.group_configs.describe(resource.resource_name)
    raise KafkaError(
        ErrorCode.INVALID_REQUEST,
        f"resources of type {resource.resource_type} have no configuration: use a topic, a group or a broker",
    )


def _broker_entries(call: Call) -> Sequence[ConfigEntry]:
    """Return the operator's settings under Kafka's names. They are read-only: a deployment changes them."""
    settings = call.engine.settings
    values = (
        ("auto.create.topics.enable", str(settings.auto_create_topics).lower(), _BOOLEAN),
        ("broker.id", str(call.cluster.broker.broker_id), _INT),
        ("default.replication.factor", "1", _INT),
        ("message.max.bytes", str(settings.message_bytes_max), _INT),
        ("num.partitions", str(settings.default_partitions), _INT),
        ("offset.metadata.max.bytes", str(settings.offset_metadata_bytes_max), _INT),
        ("transaction.max.timeout.ms", str(settings.transaction_timeout_ms_max), _INT),
    )
    return [ConfigEntry(name, value, False, True, config_type) for name, value, config_type in values]


def describe_entry(entry: ConfigEntry, include_synonyms: bool = False) -> dict[str, Any]:
    """Return one configuration in the form of DescribeConfigs and CreateTopics."""
    if entry.is_read_only:
        source = _STATIC_BROKER_CONFIG
    else:
        source = _DEFAULT_CONFIG if entry.is_default else _DYNAMIC_TOPIC_CONFIG
    return {
        "name": entry.name,
        "value": entry.value,
        "read_only": entry.is_read_only,
        "config_source": source,
        "config_type": entry.config_type,
        "documentation": entry.documentation or None,
        "synonyms": [{"name": entry.name, "value": entry.value, "source": source}] if include_synonyms else (),
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


def refuse_alter_configs(call: Call, code: ErrorCode, message: str) -> Answer:
    return {"responses": _refused(call, code, message)}


async def _alter_each(call: Call, alter: Any) -> Answer:
    counts = Counter((resource.resource_type, resource.resource_name) for resource in call.message.resources)
    results = []
    for (resource_type, name), resource in {
        (r.resource_type, r.resource_name): r for r in call.message.resources
    }.items():
        result = {"resource_type": resource_type, "resource_name": name}
        try:
            _require(call, AclOperation.ALTER_CONFIGS, resource)
            if counts[resource_type, name] > 1 or len({c.name for c in resource.configs}) < len(resource.configs):
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name!r} or one of its values appears twice")
            if resource_type not in (TOPIC, GROUP):
                raise KafkaError(ErrorCode.INVALID_REQUEST, "only topics and groups can be configured by a client")
            with translated(call):
                topic = await call.engine.topics.resolve_patiently(name) if resource_type == TOPIC else None
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
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{config.name} has no value: set one, or delete the configuration")
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
