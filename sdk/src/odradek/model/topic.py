"""Topics and their configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Growth:
    """Partitions were added, each of which has keys of one former partition (docs/decisions/0062)."""

    before: int  # partitions
    after: int  # a multiple
    at_ms: int


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic in the catalog."""

    name: str
    topic_id: UUID
    partition_count: int
    configs: Mapping[str, str] = field(default_factory=dict)  # overrides only, Kafka's dotted names
    created_ms: int = 0
    version: int = 0  # incremented by every change of the row
    growths: tuple[Growth, ...] = ()  # oldest first, each from what the former left
    growing: Growth | None = None  # has begun, and is not visible yet


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One configuration value in the form of DescribeConfigs."""

    name: str
    value: str | None
    is_default: bool
    is_read_only: bool = False
    config_type: int = 0  # Kafka's ConfigType: 1 boolean, 2 string, 3 int, 4 short, 5 long, 6 double, 7 list
    documentation: str = ""
    default: str | None = None  # the value without an override
    broker_config: str = ""  # whose value the default is: Kafka's synonym; empty: none
