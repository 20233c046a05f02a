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


def definitions(kind: type[Connector]) -> ConfigDef:
    """Return every definition of a connector: the worker's for all, for its kind, and its own."""
    return CONNECTOR + (SOURCE if issubclass(kind, SourceConnector) else SINK) + kind.config_def


def validate(kind: type[Connector], configs: Mapping[str, Any]) -> dict[str, ConfigValue]:
    """Return all configurations of a connector with their errors."""
    given = {name: value for name, value in configs.items() if value is not None}
    found = (CONNECTOR + (SOURCE if issubclass(kind, SourceConnector) else SINK)).validate(given)
    found |= kind.validate(given)
    _check_parts(given, found)
    for name, why in refused(kind, names_of(definitions(kind)), given):
        _problem(found, name, why)
    if issubclass(kind, SinkConnector):
        _check_topics(given, found)
    elif issubclass(kind, SourceConnector):
        is_required = given.get("exactly.once.support") == "required"
        if is_required and kind.exactly_once_support(given) is not ExactlyOnceSupport.SUPPORTED:
            _problem(found, "exactly.once.support", "the connector does not support exactly once")
        if given.get("transaction.boundary") == "connector" and not kind.can_define_transaction_boundaries(given):
            _problem(found, "transaction.boundary", "the connector does not say where transactions end: use poll")
    return found


def _problem(found: dict[str, ConfigValue], name: str, message: str) -> None:
    if name not in found:
        found[name] = ConfigValue(ConfigKey(name, Kind.STRING, None), None)
    if message not in found[name].errors:
        found[name].errors.append(message)


def _check_parts(given: Mapping[str, Any], found: dict[str, ConfigValue]) -> None:
    for name in ("key.converter", "value.converter", "header.converter"):
        if name in given:
            try:
                made = plugins.converter(str(given[name]))()
                made.config_def.parse(with_prefix(given, f"{name}."))
            except (ConfigError, MissingExtra) as error:
                _problem(found, name, str(error))
    try:
        make_chain(given)
    except ConfigError as error:
        for name, messages in error.problems.items():
            for message in messages:
                _problem(found, name, message)
    except MissingExtra as error:
        _problem(found, "transforms", str(error))
    for client in ("producer", "consumer", "admin"):
        try:
            overrides(given, client)
        except ConfigError as error:
            for name, messages in error.problems.items():
                _problem(found, name, messages[0])


def _check_topics(given: Mapping[str, Any], found: dict[str, ConfigValue]) -> None:
    topics, pattern = found["topics"].value, given.get("topics.regex")
    if bool(topics) == bool(pattern):
        _problem(found, "topics", "give either topics or topics.regex")
    if pattern:
        try:
            compile_pattern(str(pattern))
        except PatternInvalid as error:
            _problem(found, "topics.regex", f"topics.regex is not a regular expression (RE2): {error}")
    dead_letters = str(given.get("errors.deadletterqueue.topic.name") or "")
    if dead_letters and dead_letters in (topics or []):
        _problem(found, "errors.deadletterqueue.topic.name", "the dead-letter topic is one of the topics of the sink")


def as_json(name: str, found: Mapping[str, ConfigValue]) -> dict[str, Any]:
    """Return Connect's ConfigInfos."""
    groups = list(dict.fromkeys(each.key.group for each in found.values() if each.key.group))
    return {
        "name": name,
        "error_count": sum(len(each.errors) for each in found.values()),
        "groups": groups,
        "configs": [each.as_json(order) for order, each in enumerate(found.values(), 1)],
    }


def check(configs: Mapping[str, Any]) -> type[Connector]:
    """Return the class of a connector whose configuration has no errors.

    Raises:
        BadRequest: with every problem.
    """
    try:
        kind = connector_class(configs)
        found = validate(kind, configs)
    except (ConfigError, MissingExtra) as error:
        raise BadRequest(f"Connector configuration is invalid: {error}") from error
    problems = [message for each in found.values() for message in each.errors]
    if problems:
        count = len(problems)
        raise BadRequest(
            f"Connector configuration is invalid and contains the following {count} error(s):\n"
            + "\n".join(problems)
            + "\nYou can also find the above list of errors at the endpoint "
            "`/connector-plugins/{connectorType}/config/validate`"
        )
    return kind
