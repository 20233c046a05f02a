"""The limits of a trigger's options (model/trigger.py), and its item in the catalog, with the document as JSON.

catalog    triggers    <name>    {v: 1, n: version, d: document}
"""

from __future__ import annotations

import json
import re
from dataclasses import replace

from odradek.engine.partition.fields import attribute, check_version
from odradek.errors import ErrorCode, FormatError, KafkaError
from odradek.format.item_keys import TRIGGERS_PK
from odradek.model.trigger import (
    FOREVER,
    FunctionKind,
    StartingPosition,
    Trigger,
    TriggerState,
    document_of,
    trigger_of,
)
from odradek.ports.table import Item, Key
from odradek.triggers.filters import check_pattern

VERSION = 1

_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_FUNCTION_ARN = re.compile(r"arn:aws[a-z-]*:lambda:[a-z0-9-]+:\d{12}:function:[A-Za-z0-9_-]{1,64}(:[A-Za-z0-9$_-]+)?")
_HANDLER = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_FAILURE_KINDS = ("topic", "sqs", "sns", "s3")
_FILTERS_MAX = 10


def trigger_key(name: str) -> Key:
    """The key of a trigger."""
    return Key(TRIGGERS_PK, name)


def is_trigger_name(name: str) -> bool:
    """Return True for what a trigger can be called."""
    return _NAME.fullmatch(name) is not None


def check_trigger(trigger: Trigger) -> None:
    """Raises KafkaError(INVALID_REQUEST) that names the option and its range."""
    if not is_trigger_name(trigger.name):
        raise _invalid(f"invalid trigger name {trigger.name!r}: use 1 to 100 letters, digits, and ._-")
    _check_function(trigger)
    for name, low, high, unlimited in _RANGES:
        value = getattr(trigger, name)
        if not (low <= value <= high or (unlimited and value == FOREVER)):
            more = f", or {FOREVER} without limit" if unlimited else ""
            raise _invalid(f"{name} must be {low} to {high}{more}, not {value}")
    if trigger.starting_position not in set(StartingPosition):
        raise _invalid(f"starting_position must be one of {', '.join(StartingPosition)}")
    if (trigger.starting_position == StartingPosition.AT_TIMESTAMP) != (trigger.starting_timestamp_ms > 0):
        raise _invalid("starting_timestamp_ms and the starting position AT_TIMESTAMP belong together")
    if len(trigger.filters) > _FILTERS_MAX:
        raise _invalid(f"a trigger has at most {_FILTERS_MAX} filters, not {len(trigger.filters)}")
    for pattern in trigger.filters:
        check_pattern(pattern)
    if trigger.on_failure:
        destination_kind, _, destination = trigger.on_failure.partition(":")
        if destination_kind not in _FAILURE_KINDS or not destination:
            raise _invalid(
                f"on_failure must be topic:NAME, sqs:QUEUE_URL, sns:TOPIC_ARN or s3:BUCKET, not {trigger.on_failure!r}"
            )
        if destination_kind == "topic" and destination == trigger.topic:
            raise _invalid("on_failure cannot be the trigger's own topic: failed records would call it again")
    if trigger.newest_only and (trigger.filters or trigger.tumbling_window_s or trigger.parallelization_factor > 1):
        raise _invalid("newest_only passes records unseen: it goes without filters, tumbling windows and lanes")
    if trigger.tumbling_window_s and trigger.parallelization_factor > 1:
        raise _invalid("tumbling windows have one state a partition: parallelization_factor must be 1")
    if trigger.tumbling_window_s and (trigger.batching_window_s or trigger.maximum_record_age_s != FOREVER):
        raise _invalid("tumbling windows go without batching_window_s and maximum_record_age_s")


# option, least, most, whether -1 stands for no limit
_RANGES = (
    ("batch_size", 1, 10_000, False),
    ("batching_window_s", 0, 300, False),
    ("parallelization_factor", 1, 10, False),
    ("retry_attempts", 0, 10_000, True),
    ("maximum_record_age_s", 60, 604_800, True),
    ("tumbling_window_s", 0, 900, False),
    ("timeout_s", 1, 840, False),
)


def _check_function(trigger: Trigger) -> None:
    function = trigger.function
    match trigger.kind:
        case FunctionKind.LAMBDA if _FUNCTION_ARN.fullmatch(function):
            return
        case FunctionKind.WEBHOOK if function.startswith(("https://", "http://")) and len(function) <= 2_000:
            return
        case FunctionKind.HANDLER if _HANDLER.fullmatch(function):
            return
    raise _invalid(
        f"invalid function {function!r}: use the ARN of a Lambda function, a URL (https://...), or module:handler on "
        "the embedded service"
    )


def encode_trigger(trigger: Trigger, version: int) -> Item:
    """The trigger's item, without its key."""
    return {"v": VERSION, "n": version, "d": json.dumps(document_of(trigger, with_secret=True), separators=(",", ":"))}


def decode_trigger(item: Item) -> tuple[Trigger, int]:
    """The trigger and the version of its item. Raises FormatError."""
    check_version(item, VERSION, "a trigger")
    try:
        return trigger_of(json.loads(attribute(item, "d", str))), attribute(item, "n", int)
    except (ValueError, KafkaError) as error:
        raise FormatError(f"a damaged trigger: {error}") from None


def in_state(trigger: Trigger, state: TriggerState) -> Trigger:
    """The same trigger, paused or enabled."""
    return replace(trigger, state=state.value)


def not_found(name: str) -> KafkaError:
    """The error of a name that no trigger has."""
    return KafkaError(ErrorCode.RESOURCE_NOT_FOUND, f"there is no trigger {name!r}")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
