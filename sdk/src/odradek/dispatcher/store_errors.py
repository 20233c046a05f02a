"""The error codes of each API for errors of the store, as the API's clients understand them.

    ItemTooLarge, StoreRejected   a limit of the store, now and always: a code with which clients give up, and a message
                                  that says what to make smaller
    StoreUnavailable              certainly not applied: a code that the API's clients retry
    OutcomeUnknown                REQUEST_TIMED_OUT

The engine handles most of these errors itself, when it knows more. An API whose request has several items uses one
block per item, so that a refused item does not affect its neighbours.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from odradek.dispatcher.context import Call
from odradek.errors import ErrorCode, ItemTooLarge, KafkaError, OutcomeUnknown, StoreRejected, StoreUnavailable
from odradek.protocol.api import ApiKey

logger = logging.getLogger(__name__)

_TOPIC = ErrorCode.POLICY_VIOLATION, "use fewer or shorter configurations"
_CONFIG = ErrorCode.INVALID_CONFIG, "use shorter values"
_GROUP = ErrorCode.GROUP_MAX_SIZE_REACHED, "use fewer members or topics, or shorter ids"
_OFFSETS = ErrorCode.OFFSET_METADATA_TOO_LARGE, "commit with shorter metadata"
_TRANSACTION = ErrorCode.TRANSACTION_ABORTABLE, "abort it and write to fewer partitions and groups in one transaction"

_TOO_MUCH: Mapping[ApiKey, tuple[ErrorCode, str]] = {
    ApiKey.PRODUCE: (ErrorCode.INVALID_RECORD, "nothing was appended; sending it again is in vain"),
    ApiKey.METADATA: (ErrorCode.INVALID_TOPIC_EXCEPTION, "use another name"),
    ApiKey.CREATE_TOPICS: _TOPIC,
    ApiKey.DELETE_TOPICS: _TOPIC,
    ApiKey.CREATE_PARTITIONS: _TOPIC,
    ApiKey.ALTER_CONFIGS: _CONFIG,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _CONFIG,
    ApiKey.JOIN_GROUP: _GROUP,
    ApiKey.SYNC_GROUP: _GROUP,
    ApiKey.HEARTBEAT: _GROUP,
    ApiKey.LEAVE_GROUP: _GROUP,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _GROUP,
    ApiKey.SHARE_GROUP_HEARTBEAT: _GROUP,
    ApiKey.OFFSET_COMMIT: _OFFSETS,
    ApiKey.TXN_OFFSET_COMMIT: _OFFSETS,
    ApiKey.ADD_PARTITIONS_TO_TXN: _TRANSACTION,
    ApiKey.ADD_OFFSETS_TO_TXN: _TRANSACTION,
    # Not "abort": it may be the abort that is refused.
    ApiKey.END_TXN: (ErrorCode.INVALID_TXN_STATE, "start the producer again: its next epoch begins with an empty row"),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (ErrorCode.UNACCEPTABLE_CREDENTIAL, "use a shorter name and salt"),
}
_TOO_MUCH_ELSE = ErrorCode.INVALID_REQUEST, "use shorter names"

_TRY_AGAIN: Mapping[ApiKey, ErrorCode] = {
    ApiKey.PRODUCE: ErrorCode.NOT_ENOUGH_REPLICAS,
    ApiKey.FETCH: ErrorCode.KAFKA_STORAGE_ERROR,
    ApiKey.LIST_OFFSETS: ErrorCode.KAFKA_STORAGE_ERROR,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: ErrorCode.KAFKA_STORAGE_ERROR,
    ApiKey.METADATA: ErrorCode.LEADER_NOT_AVAILABLE,
    ApiKey.DELETE_RECORDS: ErrorCode.KAFKA_STORAGE_ERROR,
    **dict.fromkeys(
        (
            ApiKey.CREATE_TOPICS,
            ApiKey.DELETE_TOPICS,
            ApiKey.CREATE_PARTITIONS,
            ApiKey.DESCRIBE_CONFIGS,
            ApiKey.ALTER_CONFIGS,
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            ApiKey.DESCRIBE_ACLS,
            ApiKey.CREATE_ACLS,
            ApiKey.DELETE_ACLS,
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ),
        ErrorCode.REQUEST_TIMED_OUT,
    ),
}
# From these versions on clients wait and try again by themselves (KIP-599).
_THROTTLED_FROM: Mapping[ApiKey, int] = {
    ApiKey.CREATE_TOPICS: 6,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.CREATE_PARTITIONS: 3,
}


def _try_again(call: Call) -> ErrorCode:
    """With which code an API says that the store did not answer, and that nothing was changed."""
    if knows_throttling(call):
        return ErrorCode.THROTTLING_QUOTA_EXCEEDED
    return _TRY_AGAIN.get(call.request.api_key, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def knows_throttling(call: Call) -> bool:
    """Return True if the client waits and tries again after THROTTLING_QUOTA_EXCEEDED (KIP-599)."""
    throttled_from = _THROTTLED_FROM.get(call.request.api_key)
    return throttled_from is not None and call.api_version >= throttled_from


@contextmanager
def translated(call: Call) -> Iterator[None]:
    """A request, or an item of one. Raises KafkaError for what the store raises, in the API's own codes.

    COORDINATOR_NOT_AVAILABLE, with which the engine says that a table did not answer, becomes the API's own as well.
    """
    try:
        yield
    except ItemTooLarge as error:
        logger.error("%s: %s", call.request.api_key.name, error)
        raise _too_much(call.request.api_key) from error
    except StoreRejected as error:  # its adapter has logged what was refused
        raise _too_much(call.request.api_key) from error
    except StoreUnavailable as error:
        raise KafkaError(_try_again(call), "the store did not answer: try again") from error
    except OutcomeUnknown as error:
        message = "the store did not say in time whether it was done: look, and try again"
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, message) from error
    except KafkaError as error:
        if error.code is not ErrorCode.COORDINATOR_NOT_AVAILABLE:
            raise
        raise KafkaError(_try_again(call), error.message) from error


def _too_much(api_key: ApiKey) -> KafkaError:
    code, advice = _TOO_MUCH.get(api_key, _TOO_MUCH_ELSE)
    return KafkaError(code, f"this is more than the store takes: {advice}; the service's log says what was refused")
