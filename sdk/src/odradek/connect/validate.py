"""Validation of a connector's configuration: the worker's part, the plugin's, converters, transforms, predicates.

Options that nothing reads are errors, too (unknown.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odradek.connect import plugins
from odradek.connect.config import ConfigDef, ConfigKey, ConfigValue, Kind, with_prefix
from odradek.connect.errors import BadRequest, ConfigError
from odradek.connect.plugin import Connector, ExactlyOnceSupport, SinkConnector, SourceConnector
from odradek.connect.settings import CONNECTOR, SINK, SOURCE, overrides
from odradek.connect.transforms.chain import make_chain
from odradek.connect.unknown import names_of, refused
from odradek.extras import MissingExtra
from odradek.patterns import PatternInvalid, compile_pattern


def connector_class(configs: Mapping[str, Any]) -> type[Connector]:
    """Return the class of a connector. Raises ConfigError, MissingExtra."""
    name = configs.get("connector.class")
    if not name:
        raise ConfigError({"connector.class": ["connector.class is required: the class"]})
    try:
        return plugins.connector(str(name))
    except ConfigError as error:
        raise ConfigError({"connector.class": [str(error)]}) from None


def definitions(connector_type: type[Connector]) -> ConfigDef:
    """Return every definition of a connector: the worker's for all, for its kind, and its own."""
    return CONNECTOR + (SOURCE if issubclass(connector_type, SourceConnector) else SINK) + connector_type.config_def


def validate(connector_type: type[Connector], configs: Mapping[str, Any]) -> dict[str, ConfigValue]:
    """Return all configurations of a connector with their errors."""
    configs_set = {name: value for name, value in configs.items() if value is not None}
    validated = (CONNECTOR + (SOURCE if issubclass(connector_type, SourceConnector) else SINK)).validate(configs_set)
    validated |= connector_type.validate(configs_set)
    _check_parts(configs_set, validated)
    for name, why in refused(connector_type, names_of(definitions(connector_type)), configs_set):
        _problem(validated, name, why)
    if issubclass(connector_type, SinkConnector):
        _check_topics(configs_set, validated)
    elif issubclass(connector_type, SourceConnector):
        is_required = configs_set.get("exactly.once.support") == "required"
        if is_required and connector_type.exactly_once_support(configs_set) is not ExactlyOnceSupport.SUPPORTED:
            _problem(validated, "exactly.once.support", "the connector does not support exactly once")
        if configs_set.get(
            "transaction.boundary"
        ) == "connector" and not connector_type.can_define_transaction_boundaries(configs_set):
            _problem(validated, "transaction.boundary", "the connector does not say where transactions end: use poll")
    return validated


def _problem(validated: dict[str, ConfigValue], name: str, message: str) -> None:
    if name not in validated:
        validated[name] = ConfigValue(ConfigKey(name, Kind.STRING, None), None)
    if message not in validated[name].errors:
        validated[name].errors.append(message)


def _check_parts(configs: Mapping[str, Any], validated: dict[str, ConfigValue]) -> None:
    for name in ("key.converter", "value.converter", "header.converter"):
        if name in configs:
            try:
                made = plugins.converter(str(configs[name]))()
                made.config_def.parse(with_prefix(configs, f"{name}."))
            except (ConfigError, MissingExtra) as error:
                _problem(validated, name, str(error))
    try:
        make_chain(configs)
    except ConfigError as error:
        for name, messages in error.problems.items():
            for message in messages:
                _problem(validated, name, message)
    except MissingExtra as error:
        _problem(validated, "transforms", str(error))
    for client in ("producer", "consumer", "admin"):
        try:
            overrides(configs, client)
        except ConfigError as error:
            for name, messages in error.problems.items():
                _problem(validated, name, messages[0])


def _check_topics(configs: Mapping[str, Any], validated: dict[str, ConfigValue]) -> None:
    topics, pattern = validated["topics"].value, configs.get("topics.regex")
    if bool(topics) == bool(pattern):
        _problem(validated, "topics", "give either topics or topics.regex")
    if pattern:
        try:
            compile_pattern(str(pattern))
        except PatternInvalid as error:
            _problem(validated, "topics.regex", f"topics.regex is not a regular expression (RE2): {error}")
    dead_letters = str(configs.get("errors.deadletterqueue.topic.name") or "")
    if dead_letters and dead_letters in (topics or []):
        _problem(
            validated, "errors.deadletterqueue.topic.name", "the dead-letter topic is one of the topics of the sink"
        )


def as_json(name: str, validated: Mapping[str, ConfigValue]) -> dict[str, Any]:
    """Return Connect's ConfigInfos."""
    groups = list(
        dict.fromkeys(config_value.key.group for config_value in validated.values() if config_value.key.group)
    )
    return {
        "name": name,
        "error_count": sum(len(config_value.errors) for config_value in validated.values()),
        "groups": groups,
        "configs": [config_value.as_json(order) for order, config_value in enumerate(validated.values(), 1)],
    }


def check(configs: Mapping[str, Any]) -> type[Connector]:
    """Return the class of a connector whose configuration has no errors.

    Raises:
        BadRequest: with every problem.
    """
    try:
        connector_type = connector_class(configs)
        validated = validate(connector_type, configs)
    except (ConfigError, MissingExtra) as error:
        raise BadRequest(f"Connector configuration is invalid: {error}") from error
    problems = [message for config_value in validated.values() for message in config_value.errors]
    if problems:
        count = len(problems)
        raise BadRequest(
            f"Connector configuration is invalid and contains the following {count} error(s):\n"
            + "\n".join(problems)
            + "\nYou can also find the above list of errors at the endpoint "
            "`/connector-plugins/{connectorType}/config/validate`"
        )
    return connector_type
