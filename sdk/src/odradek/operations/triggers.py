"""Triggers: functions that are called with the new records of a topic."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from odradek.client.admin.admin import Admin
from odradek.errors import ErrorCode, KafkaError
from odradek.model.topic_partition import TopicPartition
from odradek.model.trigger import StartingPosition, Trigger, TriggerStatus
from odradek.operations.places import Place, parse_place, resolve
from odradek.operations.resets import NewOffset
from odradek.operations.topics import offsets_of

_DESCRIBED_AT_ONCE = 8


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
class TriggerProgress:
    """Progress of a trigger in a list."""

    name: str
    state: str  # ENABLED, PAUSED, or NO_TOPIC
    lag: int
    invocations: int
    failures: int
    last_error: str


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
    is_calling: bool = False
    called_ms: int = 0  # the last call; 0: never
    retry_ms: int = 0  # when it calls again after a failure or a batching window; 0: nothing waits
    age_ms: int = 0  # of the last record of the last call


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


async def progress_of(admin: Admin, names: Sequence[str]) -> dict[str, TriggerProgress]:
    """Return what each trigger has done; triggers that were deleted meanwhile are left out.

    It costs a request for each, and the service reads each partition: ask for those that are shown.
    """
    gate = asyncio.Semaphore(_DESCRIBED_AT_ONCE)

    async def one(name: str) -> TriggerProgress | None:
        async with gate:
            try:
                found = await describe_trigger(admin, name)
            except KafkaError as error:
                if error.code is ErrorCode.RESOURCE_NOT_FOUND:
                    return None
                raise
        return TriggerProgress(name, found.state, found.lag, found.invocations, found.failures, found.last_error)

    found = await asyncio.gather(*(one(name) for name in names))
    return {each.name: each for each in found if each is not None}


async def describe_trigger(admin: Admin, name: str) -> TriggerDetail:
    """One trigger. Raises KafkaError(RESOURCE_NOT_FOUND)."""
    return detail_of(await admin.describe_trigger(name))


def detail_of(status: TriggerStatus) -> TriggerDetail:
    """Return the details of a trigger for people. Pure."""
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
            each.is_calling,
            each.called_ms,
            each.retry_ms,
            each.age_ms,
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


async def preview_reset(admin: Admin, name: str, to: str, option: str) -> list[NewOffset]:
    """Return the present and the new offset of each partition, and set nothing.

    Args:
        to: earliest, latest, or @TIME.
        option: where it was given, for messages.

    Raises KafkaError: INVALID_CONFIG, RESOURCE_NOT_FOUND; TOPIC_AUTHORIZATION_FAILED: the caller may not describe the
    topic.
    """
    place = parse_place(to, option)
    position_of(place, option)
    found = await admin.describe_trigger(name)
    now = {TopicPartition(found.trigger.topic, each.partition): each.offset for each in found.partitions}
    if not now:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the topic {found.trigger.topic!r} does not exist")
    begins, ends = await offsets_of(admin, sorted(now))
    at_time: dict[TopicPartition, int | None] = {}
    if place.kind == "time":
        listed = await admin.list_offsets(dict.fromkeys(sorted(now), place.number))
        at_time = {each: at.offset if at.offset >= 0 else None for each, at in listed.items()}
    target = resolve(place, begins, ends, at_time)
    return [NewOffset(str(each), now[each], target[each]) for each in sorted(target)]


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
