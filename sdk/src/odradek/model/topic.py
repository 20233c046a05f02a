"""Topics and their configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the catalog holds it."""

    name: str
    topic_id: UUID
    partition_count: int
    configs: Mapping[str, str] = field(default_factory=dict)  # overrides only, Kafka's dotted names
    created_ms: int = 0
    version: int = 0  # raised by every change of the row


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One configuration value as DescribeConfigs shows it."""

    name: str
    value: str | None
    is_default: bool
    is_read_only: bool = False
    config_type: int = 0  # Kafka's ConfigType: 1 boolean, 2 string, 3 int, 4 short, 5 long, 6 double, 7 list
    documentation: str = ""
