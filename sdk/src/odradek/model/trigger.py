"""Triggers as people define and see them: a function that is called with the new records of a topic.

Names and limits are those of Lambda's event source mappings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from odradek.errors import ErrorCode, KafkaError

FOREVER = -1
ATTEMPTS_WITH_DESTINATION = 10  # where they would be infinite, as Lambda has it: else nothing reached the destination


class StartingPosition(StrEnum):
    """The position at which a new trigger begins."""

    LATEST = "LATEST"
    TRIM_HORIZON = "TRIM_HORIZON"
    AT_TIMESTAMP = "AT_TIMESTAMP"


class TriggerState(StrEnum):
    """The state of a trigger: an enabled one calls its function."""

    ENABLED = "ENABLED"
    PAUSED = "PAUSED"


class FunctionKind(StrEnum):
    """The kind of target that a trigger calls."""

    LAMBDA = "lambda"
    WEBHOOK = "webhook"
    HANDLER = "handler"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """A trigger.

    Attributes:
        name: 1 to 100 letters, digits, and ._-
        topic: its name; a recreated topic is read from its start.
        function: the ARN of a Lambda function, a URL, or `module:handler` on the embedded service.
        group_id: of the consumer group that has its offsets; `trigger.<name>` unless given.
        batch_size: records of a call, 1 to 10,000.
        batching_window_s: how long records wait for a full batch, 0 to 300.
        starting_position, starting_timestamp_ms: where it begins; the time is that of AT_TIMESTAMP.
        parallelization_factor: concurrent calls of a partition, 1 to 10; records of one key stay in order.
        filters: patterns as JSON; a record that matches none of them is passed over. Empty: all match.
        retry_attempts: calls after the first one that failed, 0 to 10,000; -1: until the record expires.
        maximum_record_age_s: age at which a record is given up, 60 to 604,800; -1: never.
        newest_only: call with the newest record of those that wait, and pass the others: a wake-up, whatever came.
        bisect: split a batch that failed, so that one bad record does not fail the others.
        on_failure: where records go that are given up: topic:NAME, sqs:URL, sns:ARN, s3:BUCKET[/PREFIX].
        tumbling_window_s: windows with a state that calls hand on, 1 to 900; 0: none.
        timeout_s: how long a call may take, 1 to 840.
        secret: signs calls of a URL (Standard Webhooks).
        state: whether it calls.
        created_ms: when it was created.
    """

    name: str
    topic: str
    function: str
    group_id: str = ""
    batch_size: int = 100
    batching_window_s: int = 0
    starting_position: str = StartingPosition.LATEST
    starting_timestamp_ms: int = 0
    parallelization_factor: int = 1
    filters: tuple[str, ...] = ()
    retry_attempts: int = FOREVER
    maximum_record_age_s: int = FOREVER
    newest_only: bool = False
    bisect: bool = False
    on_failure: str = ""
    tumbling_window_s: int = 0
    timeout_s: int = 60
    secret: str = ""
    state: str = TriggerState.ENABLED
    created_ms: int = 0

    @property
    def group(self) -> str:
        """The consumer group that has its offsets."""
        return self.group_id or f"trigger.{self.name}"

    @property
    def is_enabled(self) -> bool:
        return self.state == TriggerState.ENABLED

    @property
    def kind(self) -> FunctionKind:
        """Return the kind of its function."""
        if self.function.startswith("arn:"):
            return FunctionKind.LAMBDA
        return FunctionKind.WEBHOOK if "://" in self.function else FunctionKind.HANDLER

    @property
    def attempts_max(self) -> int | None:
        """Failed calls after which records are given up; None: no number of them."""
        if self.retry_attempts == FOREVER:
            return 1 + ATTEMPTS_WITH_DESTINATION if self.on_failure else None
        return 1 + self.retry_attempts

    def is_too_old(self, timestamp_ms: int, now_ms: int) -> bool:
        """Return True if a record of that time is given up."""
        return self.maximum_record_age_s != FOREVER and now_ms - timestamp_ms > 1000 * self.maximum_record_age_s


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """A partition of a trigger.

    Attributes:
        offset, end_offset, lag: the next record to call with, the end of the log, the records between.
        is_calling: a dispatcher has it now.
        invocations, failures, passed, given_up: since the trigger's creation or last reset.
        error, error_ms, called_ms: the last failure, its time, and the time of the last call; 0: never.
        age_ms: how old the last record of the last call was when it ended (Lambda's IteratorAge).
        retry_ms: when it is called again after a failure, or after its batching window; 0: nothing waits.
    """

    partition: int
    offset: int
    end_offset: int
    lag: int
    is_calling: bool
    invocations: int
    failures: int
    passed: int
    given_up: int
    error: str
    error_ms: int
    called_ms: int
    retry_ms: int
    age_ms: int = 0


@dataclass(frozen=True, slots=True)
class TriggerStatus:
    """A trigger and its partitions; none where its topic does not exist."""

    trigger: Trigger
    topic_exists: bool
    partitions: Sequence[PartitionStatus]

    @property
    def lag(self) -> int:
        return sum(partition.lag for partition in self.partitions)

    @property
    def invocations(self) -> int:
        return sum(partition.invocations for partition in self.partitions)

    @property
    def failures(self) -> int:
        return sum(partition.failures for partition in self.partitions)

    @property
    def last_error(self) -> str:
        """The newest failure of any partition; empty: there was none."""
        newest = max(self.partitions, key=lambda partition: partition.error_ms, default=None)
        return "" if newest is None else newest.error


def status_document(status: TriggerStatus) -> dict[str, Any]:
    """A description as JSON has it."""
    partitions = [
        {spec.name: getattr(partition, spec.name) for spec in fields(partition)} for partition in status.partitions
    ]
    trigger = document_of(status.trigger, with_secret=False)
    return {"trigger": trigger, "topic_exists": status.topic_exists, "partitions": partitions}


def status_of(document: Mapping[str, Any]) -> TriggerStatus:
    """The description of a document. Raises KeyError, TypeError: it is none."""
    partitions = [PartitionStatus(**partition) for partition in document["partitions"]]
    return TriggerStatus(trigger_of(document["trigger"]), document["topic_exists"], partitions)


def trigger_of(document: Mapping[str, Any]) -> Trigger:
    """The trigger of a document. Raises KafkaError(INVALID_REQUEST) for unknown names and wrong types."""
    options = {spec.name: spec for spec in fields(Trigger)}
    values: dict[str, Any] = {}
    for name, value in document.items():
        if name not in options:
            raise _invalid(f"unknown option {name!r}: use {', '.join(sorted(options))}")
        values[name] = _typed(name, value, options[name].type)
    missing = [name for name in ("name", "topic", "function") if not values.get(name)]
    if missing:
        raise _invalid(f"a trigger needs {', '.join(missing)}")
    return Trigger(**values)


def _typed(name: str, value: Any, type_name: Any) -> Any:
    if type_name.startswith("tuple"):
        if isinstance(value, list | tuple) and all(isinstance(element, str) for element in value):
            return tuple(value)
        raise _invalid(f"{name} must be a list of texts")
    wanted = {"str": str, "int": int, "bool": bool}[type_name]
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        raise _invalid(f"{name} must be {'a number' if wanted is int else 'a text' if wanted is str else 'a boolean'}")
    return value


def document_of(trigger: Trigger, *, with_secret: bool) -> dict[str, Any]:
    """All options by name. The secret is shown to nobody after the creation."""
    document = {spec.name: getattr(trigger, spec.name) for spec in fields(Trigger)}
    document["filters"] = list(trigger.filters)
    document["group_id"] = trigger.group
    if not with_secret:
        del document["secret"]
    return {name: str(value) if isinstance(value, StrEnum) else value for name, value in document.items()}


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
