"""Triggers: functions that are called with the new records of a topic."""

from __future__ import annotations

from dataclasses import dataclass

from odradek.client.admin.admin import Admin
from odradek.errors import ErrorCode, KafkaError
from odradek.model.trigger import StartingPosition, Trigger, TriggerStatus
from odradek.operations.places import Place, parse_place


@dataclass(frozen=True, slots=True)
class TriggerRow:
    """A trigger in a list."""

    name: str
    topic: str
    function: str
    state: str
    batch_size: int
    group: str


@dataclass(frozen=True, slots=True)
class TriggerPartition:
    """A partition of a trigger."""

    partition: int
    offset: int
    end_offset: int
    lag: int
    invocations: int
    failures: int
    passed: int  # records that filters passed over
    given_up: int
    last_error: str


@dataclass(frozen=True, slots=True)
class TriggerDetail:
    """A trigger with its options, and what it has done."""

    trigger: Trigger
    state: str  # ENABLED, PAUSED, or NO_TOPIC
    lag: int
    invocations: int
    failures: int
    last_error: str
    partitions: tuple[TriggerPartition, ...]


async def list_triggers(admin: Admin) -> list[TriggerRow]:
    """The triggers, by name."""
    return [
        TriggerRow(each.name, each.topic, each.function, str(each.state), each.batch_size, each.group)
        for each in await admin.list_triggers()
    ]


async def describe_trigger(admin: Admin, name: str) -> TriggerDetail:
    """One trigger. Raises KafkaError(RESOURCE_NOT_FOUND)."""
    return detail_of(await admin.describe_trigger(name))


def detail_of(status: TriggerStatus) -> TriggerDetail:
    """What people want to know of a trigger. Pure."""
    partitions = tuple(
        TriggerPartition(
            each.partition,
            each.offset,
            each.end_offset,
            each.lag,
            each.invocations,
            each.failures,
            each.passed,
            each.given_up,
            each.error,
        )
        for each in status.partitions
    )
    return TriggerDetail(
        status.trigger,
        str(status.trigger.state) if status.topic_exists else "NO_TOPIC",
        status.lag,
        status.invocations,
        status.failures,
        status.last_error,
        partitions,
    )


async def reset_trigger(admin: Admin, name: str, to: str, option: str) -> dict[int, int]:
    """Set the offsets of a paused trigger.

    Args:
        to: earliest, latest, or @TIME.
        option: where it was given, for messages.

    Raises KafkaError: INVALID_CONFIG; INVALID_REQUEST if it is enabled, or in a call.
    """
    position, timestamp_ms = position_of(parse_place(to, option), option)
    return await admin.reset_trigger(name, position, timestamp_ms)


def position_of(place: Place, option: str) -> tuple[str, int]:
    """The starting position of a place. Raises KafkaError(INVALID_CONFIG)."""
    match place.kind:
        case "earliest":
            return StartingPosition.TRIM_HORIZON.value, 0
        case "latest":
            return StartingPosition.LATEST.value, 0
        case "time":
            return StartingPosition.AT_TIMESTAMP.value, place.number
    raise KafkaError(ErrorCode.INVALID_CONFIG, f"{option} must be earliest, latest or @TIME")
