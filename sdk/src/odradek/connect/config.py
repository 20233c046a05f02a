"""Definitions of configurations: names, types, defaults and rules, from which values are parsed, validated, documented.

Every plugin has a `ConfigDef`. The worker parses a connector's configuration by it, the REST API validates by it, and
the pages of docs/connect are made from it. All values arrive as text, as in Kafka Connect's JSON.

Source: Kafka's org.apache.kafka.common.config.ConfigDef; the JSON of Connect's `config/validate`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from odradek.connect.errors import ConfigError

HIDDEN = "[hidden]"


class Kind(Enum):
    """The type of a configuration's value; the value is Kafka's name of it."""

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"  # noqa: S105  (a type's name)


def with_prefix(configs: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the configurations under a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in configs.items() if name.startswith(prefix)}


class _Required:
    def __repr__(self) -> str:
        return "required"


REQUIRED = _Required()
Rule = Callable[[Any], str | None]
"""A value -> why it is refused, or None."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """A rule, and the same in words."""

    words: str
    refuse: Rule
    choices: tuple[str, ...] = ()

    def __call__(self, value: Any) -> str | None:
        return self.refuse(value)


def one_of(*choices: str, ignore_case: bool = False) -> Allowed:
    """Allow these values."""
    allowed_words = {choice.lower() if ignore_case else choice for choice in choices}
    words = ", ".join(choices)

    def refuse(value: Any) -> str | None:
        text = str(value).lower() if ignore_case else value
        return None if value is None or text in allowed_words else f"must be one of {words}"

    return Allowed(words, refuse, choices)


def between(low: float, high: float | None = None) -> Allowed:
    """Allow numbers of a closed range."""
    words = f"from {low}" if high is None else f"{low} to {high}"

    def refuse(value: Any) -> str | None:
        return None if value is None or (low <= value and (high is None or value <= high)) else f"must be {words}"

    return Allowed(words, refuse)


def non_empty() -> Allowed:
    """Allow everything but an empty text or list."""
    return Allowed("non-empty", lambda value: "must not be empty" if value in ("", []) else None)


def regex() -> Allowed:
    """Allow regular expressions."""

    def refuse(value: Any) -> str | None:
        try:
            re.compile(java_regex(value))
        except re.error as error:
            return f"must be a regular expression: {error}"
        return None

    return Allowed("a regular expression", refuse)


def java_regex(pattern: str) -> str:
    """Return a Java regular expression in Python's notation: (?<name>...) becomes (?P<name>...)."""
    return re.sub(r"\(\?<(?![=!])", "(?P<", pattern)


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One configuration."""

    name: str
    kind: Kind
    default: Any = REQUIRED
    documentation: str = ""
    importance: str = "MEDIUM"  # HIGH | MEDIUM | LOW
    allowed: Allowed | None = None
    group: str = ""
    also: tuple[str, ...] = ()  # other names that are understood: those of Confluent's connector of the same kind

    @property
    def is_required(self) -> bool:
        return self.default is REQUIRED

    def parse(self, value: Any) -> Any:
        """Return the value in its type. Raises ValueError that says why it is refused."""
        parsed = _parsed(self.kind, value)
        why = self.allowed(parsed) if self.allowed is not None and parsed is not None else None
        if why is not None:
            raise ValueError(why)
        return parsed


def _parsed(option_type: Kind, value: Any) -> Any:
    if value is None:
        return None
    if option_type is Kind.LIST:
        if isinstance(value, list | tuple):
            return [str(element) for element in value]
        return [element.strip() for element in str(value).split(",")] if str(value).strip() else []
    text = str(value).strip() if option_type is not Kind.PASSWORD else str(value)
    if option_type is Kind.BOOLEAN:
        if isinstance(value, bool) or text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise ValueError("must be true or false")
    if option_type in (Kind.INT, Kind.LONG):
        bits = 31 if option_type is Kind.INT else 63
        try:
            number = int(text)
        except ValueError:
            raise ValueError("must be a whole number") from None
        if not -(1 << bits) <= number < 1 << bits:
            raise ValueError(f"must fit {bits + 1} bits")
        return number
    if option_type is Kind.DOUBLE:
        try:
            return float(text)
        except ValueError:
            raise ValueError("must be a number") from None
    return text


@dataclass(slots=True)
class ConfigValue:
    """A configuration as it was given, with what is wrong with it."""

    key: ConfigKey
    value: Any
    errors: list[str] = field(default_factory=list)

    def as_json(self, order: int) -> dict[str, Any]:
        """Return Connect's JSON of the definition and the value; passwords are hidden."""
        key = self.key
        choices = list(key.allowed.choices) if key.allowed else []
        is_secret = key.kind is Kind.PASSWORD and self.value is not None
        return {
            "definition": {
                "name": key.name,
                "type": key.kind.value,
                "required": key.is_required,
                "default_value": None if key.is_required else _text(key.default),
                "importance": key.importance,
                "documentation": key.documentation,
                "group": key.group or None,
                "width": "NONE",
                "display_name": key.name,
                "dependents": [],
                "order": order,
            },
            "value": {
                "name": key.name,
                "value": HIDDEN if is_secret else _text(self.value),
                "recommended_values": choices,
                "errors": self.errors,
                "visible": True,
            },
        }


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


class ConfigDef:
    """The configurations of a plugin, in the order of their definition."""

    def __init__(self, keys: Iterable[ConfigKey] = ()) -> None:
        self.keys: dict[str, ConfigKey] = {}
        for key in keys:
            self.add(key)

    def add(self, key: ConfigKey) -> ConfigDef:
        self.keys[key.name] = key
        return self

    def define(
        self,
        name: str,
        option_type: Kind,
        default: Any = REQUIRED,
        documentation: str = "",
        *,
        importance: str = "MEDIUM",
        allowed: Allowed | None = None,
        group: str = "",
        also: tuple[str, ...] = (),
    ) -> ConfigDef:
        """Add a configuration, and return the definitions."""
        return self.add(ConfigKey(name, option_type, default, documentation, importance, allowed, group, also))

    def __add__(self, other: ConfigDef) -> ConfigDef:
        return ConfigDef((*self.keys.values(), *other.keys.values()))

    def __iter__(self) -> Iterator[ConfigKey]:
        return iter(self.keys.values())

    def validate(self, configs: Mapping[str, Any]) -> dict[str, ConfigValue]:
        """Return each configuration with its value, parsed where possible, and its errors. Ignores unknown names."""
        return {key.name: _validated(key, configs) for key in self}

    def parse(self, configs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values by name, with defaults.

        Raises:
            ConfigError: with everything that is missing or refused.
        """
        validated = self.validate(configs)
        problems = {name: config_value.errors for name, config_value in validated.items() if config_value.errors}
        if problems:
            raise ConfigError(problems)
        return {name: config_value.value for name, config_value in validated.items()}


def _validated(key: ConfigKey, configs: Mapping[str, Any]) -> ConfigValue:
    name = next((spelling for spelling in (key.name, *key.also) if spelling in configs), None)
    if name is None or (configs[name] is None and not key.is_required):
        if key.is_required:
            return ConfigValue(key, None, [f"{key.name} is required: {key.documentation}"])
        return ConfigValue(key, key.default)
    try:
        value = key.parse(configs[name])
    except ValueError as error:
        shown = HIDDEN if key.kind is Kind.PASSWORD else repr(configs[name])
        return ConfigValue(key, configs[name], [f"{name} {error}, not {shown}"])
    if key.is_required and value is None:
        return ConfigValue(key, None, [f"{key.name} is required: {key.documentation}"])
    return ConfigValue(key, value)
