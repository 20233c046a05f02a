"""The transforms of a connector: those that `transforms` names, each with its predicate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from odradek.connect import plugins
from odradek.connect.config import with_prefix
from odradek.connect.errors import ConfigError
from odradek.connect.plugin import Predicate, Transformation
from odradek.connect.record import ConnectRecord


@dataclass(frozen=True, slots=True)
class Stage:
    """A transform with the condition under which it applies."""

    alias: str
    transformation: Transformation
    predicate: Predicate | None = None
    negate: bool = False

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """Return the record, changed if the condition holds; None to drop it. Raises DataError."""
        if self.predicate is not None and self.predicate.test(record) is self.negate:
            return record
        return self.transformation.apply(record)

    def close(self) -> None:
        self.transformation.close()
        if self.predicate is not None:
            self.predicate.close()


def aliases(configs: Mapping[str, Any], name: str) -> list[str]:
    """Return the names in a list such as `transforms`. Raises ConfigError for a repeated one."""
    alias_names = [alias.strip() for alias in str(configs.get(name) or "").split(",") if alias.strip()]
    if len(set(alias_names)) != len(alias_names):
        raise ConfigError({name: [f"{name} names the same alias twice: {', '.join(alias_names)}"]})
    return alias_names


def make_chain(configs: Mapping[str, Any]) -> Sequence[Stage]:
    """Return the configured transforms in their order. Raises ConfigError with every problem, MissingExtra."""
    problems: dict[str, list[str]] = {}
    predicates: dict[str, Predicate] = {}
    for alias in aliases(configs, "predicates"):
        made = _made(configs, f"predicates.{alias}", Predicate, problems)
        if made is not None:
            predicates[alias] = made
    stages = []
    for alias in aliases(configs, "transforms"):
        prefix = f"transforms.{alias}"
        transformation = _made(configs, prefix, Transformation, problems)
        named = configs.get(f"{prefix}.predicate")
        if named is not None and named not in aliases(configs, "predicates"):
            problems.setdefault(f"{prefix}.predicate", []).append(f"{prefix}.predicate: unknown predicate {named!r}")
        if transformation is not None:
            negate = str(configs.get(f"{prefix}.negate", "false")).lower() == "true"
            stages.append(Stage(alias, transformation, predicates.get(named or ""), negate))
    if problems:
        raise ConfigError(problems)
    return stages


def _made(configs: Mapping[str, Any], prefix: str, base_class: Any, problems: dict[str, list[str]]) -> Any:
    """Return a configured transform or predicate; None with its problems noted."""
    name = configs.get(f"{prefix}.type")
    if not name:
        problems.setdefault(f"{prefix}.type", []).append(f"{prefix}.type is required: the class")
        return None
    category: plugins.Category = "transforms" if base_class is Transformation else "predicates"
    try:
        made: Any = plugins.find(category, str(name)).load()()
        made.configure(with_prefix(configs, f"{prefix}."))
    except ConfigError as error:
        for part, messages in error.problems.items():
            where = f"{prefix}.{part or 'type'}"
            problems.setdefault(where, []).extend(f"{prefix}: {message}" for message in messages)
        return None
    return made
