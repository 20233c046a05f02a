"""The properties of SET: their names, which are ksqlDB's, and the values that they take."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.sql.catalog import FORMATS
from odradek.sql.functions.aggregates import COLLECTED_MAX
from odradek.sql.position import SqlError
from odradek.sql.syntax import Set

OFFSET_RESET = "auto.offset.reset"
CORRUPT_BATCHES = "corrupt.batches"
KEY_FORMAT = "ksql.persistence.default.format.key"
VALUE_FORMAT = "ksql.persistence.default.format.value"
WRAPPED = "ksql.persistence.wrap.single.values"
SUBSTITUTION = "ksql.variable.substitution.enable"
TOPIC_PREFIX = "ksql.output.topic.name.prefix"
_COLLECTED = {  # the number of elements that a function keeps
    "COLLECT_LIST": "ksql.functions.collect_list.limit", "COLLECT_SET": "ksql.functions.collect_set.limit",
}  # fmt: skip
SETTINGS: dict[str, tuple[str, ...]] = {  # and their values; (): any
    OFFSET_RESET: ("earliest", "latest"), CORRUPT_BATCHES: ("fail", "skip"),
    KEY_FORMAT: tuple(map(str.lower, FORMATS)), VALUE_FORMAT: tuple(map(str.lower, FORMATS)),
    WRAPPED: ("true", "false"), SUBSTITUTION: ("true", "false"),
    TOPIC_PREFIX: (), **dict.fromkeys(_COLLECTED.values(), ()),
}  # fmt: skip
WITHOUT_EFFECT = (  # of ksqlDB: they tune Kafka Streams, or ask for what is the case here
    "cache.max.bytes.buffering", "statestore.cache.max.bytes", "commit.interval.ms", "num.stream.threads",
    "num.standby.replicas", "processing.guarantee", "ksql.query.pull.table.scan.enabled",
    "ksql.query.pull.max.allowed.offset.lag", "ksql.query.push.v2.enabled", "ksql.query.pull.stream.enabled",
    "ksql.suppress.enabled", "max.task.idle.ms", "topology.optimization",
)  # fmt: skip


def checked(name: str, statement: Set) -> str:
    """Return the value of a property, in lower case if it is one of a few words. Raises SqlError."""
    allowed = SETTINGS.get(name)
    if allowed is None or statement.value is None:
        known = ", ".join(f"'{each}'" for each in SETTINGS)
        raise SqlError(f"unknown property '{statement.name}': {known} and those of Spark (spark.*)", statement.at)
    value = statement.value.lower() if allowed else statement.value
    if allowed and value not in allowed:
        raise SqlError(f"'{name}' is {' or '.join(allowed)}, not {statement.value}", statement.at)
    is_number = value.isascii() and value.isdigit() and len(value) <= len(str(COLLECTED_MAX))
    if name in _COLLECTED.values() and not (is_number and int(value) <= COLLECTED_MAX):
        raise SqlError(f"'{name}' is a number up to {COLLECTED_MAX}, not {statement.value}", statement.at)
    return value


def collected(settings: Mapping[str, str]) -> dict[str, int]:
    """Return how many elements COLLECT_LIST and COLLECT_SET keep, by function, as far as it is set."""
    return {function: int(settings[name]) for function, name in _COLLECTED.items() if name in settings}
