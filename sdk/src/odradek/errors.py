"""The error taxonomy: Kafka's error codes, and what each means to a caller.

Every failure answers three questions (docs/ARCHITECTURE.md, "Errors"): whose fault is it (HTTP status), may it be
retried (`is_retryable`), and could the request have taken effect in spite of it (`has_no_side_effects`). The tables
below are total; a test keeps them exhaustive. Numbers and names are Apache Kafka's (protocol guide, "Error codes").

Two families of exceptions:

* `KafkaError` carries an `ErrorCode` and a message that says what to do. Users of the SDK catch it.
* `StoreError` and its subclasses are raised by adapters at the ports and never reach a user. They distinguish
  *conflict* (certainly not applied), *unavailable* (certainly not applied, try later), *rejected* (certainly not
  applied, now and always) and *outcome unknown* (may have been applied: resolve by reading back, never by blind retry).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.ports.table import Item


class ErrorCode(IntEnum):
    """Kafka protocol error codes that Odradek returns or understands."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    MESSAGE_TOO_LARGE = 10
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    INVALID_REGULAR_EXPRESSION = 128
    STREAMS_INVALID_TOPOLOGY = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131
    STREAMS_TOPOLOGY_FENCED = 132

    @property
    def is_retryable(self) -> bool:
        """True if the same request may succeed later without a change by the caller."""
        return self in _RETRYABLE

    @property
    def has_no_side_effects(self) -> bool:
        """True if a request with this error certainly changed nothing."""
        return self not in _MAY_HAVE_APPLIED

    @property
    def http_status(self) -> int:
        """The HTTP status of failures that are answered before or instead of a protocol frame."""
        return _HTTP_STATUS.get(self, 503 if self.is_retryable else 400)


_RETRYABLE = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    }
)

_MAY_HAVE_APPLIED = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
    }
)

_HTTP_STATUS: Mapping[ErrorCode, int] = {
    ErrorCode.NONE: 200,
    ErrorCode.UNKNOWN_SERVER_ERROR: 500,
    ErrorCode.REQUEST_TIMED_OUT: 504,
    ErrorCode.MESSAGE_TOO_LARGE: 413,
    ErrorCode.RECORD_LIST_TOO_LARGE: 413,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 404,
    ErrorCode.UNKNOWN_TOPIC_ID: 404,
    ErrorCode.GROUP_ID_NOT_FOUND: 404,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: 404,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: 403,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: 403,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: 403,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: 403,
    ErrorCode.SASL_AUTHENTICATION_FAILED: 401,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: 429,
    ErrorCode.CORRUPT_MESSAGE: 400,
}


class OdradekError(Exception):
    """Base of all errors that Odradek raises deliberately."""


class KafkaError(OdradekError):
    """A request failed with a Kafka error code.

    Attributes:
        code: the Kafka error code.
        message: one sentence that says what happened and what to do.
    """

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message or code.name

    @property
    def is_retryable(self) -> bool:
        """True if the same request may succeed later without a change by the caller."""
        return self.code.is_retryable

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"


class OffsetConflict(KafkaError):
    """A conditional send failed, because the log does not end at the expected offset. Nothing was written.

    Attributes:
        expected_offset: the offset that the sender expected.
        actual_offset: the end of the log: read from the expected offset up to this one, and decide again.
    """

    def __init__(self, expected_offset: int, actual_offset: int) -> None:
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"the partition's next offset is {actual_offset}, not {expected_offset} as expected: "
            "read up to it and decide again",
        )
        self.expected_offset = expected_offset
        self.actual_offset = actual_offset

    def __reduce__(self) -> tuple[type[OffsetConflict], tuple[int, int]]:
        return OffsetConflict, (self.expected_offset, self.actual_offset)


class WakeupError(KafkaError):
    """A consumer's `wakeup` ended a poll. Nothing was lost: the next poll goes on."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.OPERATION_NOT_ATTEMPTED, "wakeup() ended the poll")

    def __reduce__(self) -> tuple[type[WakeupError], tuple[()]]:
        return WakeupError, ()


class FormatError(OdradekError):
    """Bytes do not follow their format. `code` is the Kafka error that a server answers for them.

    `record_errors` are the records of a batch that are the reason, by their index in it (KIP-467).
    """

    def __init__(
        self,
        message: str,
        code: ErrorCode = ErrorCode.CORRUPT_MESSAGE,
        record_errors: tuple[tuple[int, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.code = code
        self.record_errors = record_errors


class UnknownVersion(FormatError):
    """Stored data was written by a newer release. Nothing is changed; the newer release can read it.

    Clients may retry: during an upgrade, a function of the new release may answer.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, ErrorCode.KAFKA_STORAGE_ERROR)


class StoreError(OdradekError):
    """Base of the errors that adapters raise at the ports."""


class ConditionFailed(StoreError):
    """A conditional write was refused: certainly not applied *by this attempt*.

    An earlier attempt whose answer was lost may have been applied; `current` shows it.

    Attributes:
        current: the stored item, or None if there is none.
    """

    def __init__(self, current: Item | None) -> None:
        super().__init__("condition failed")
        self.current = current


class TransactionCanceled(StoreError):
    """A multi-item write was refused: this attempt applied none of it.

    Attributes:
        failures: for each operation in order, None if its condition held, else the `ConditionFailed` with the item.
    """

    def __init__(self, failures: Sequence[ConditionFailed | None]) -> None:
        super().__init__("transaction canceled")
        self.failures = tuple(failures)


class ItemTooLarge(StoreError):
    """The item would be larger than a table allows (400 KB): certainly not applied, now and always.

    Attributes:
        size_bytes: the item's size, or None if the store did not report it.
    """

    def __init__(self, size_bytes: int | None = None) -> None:
        super().__init__("item too large" if size_bytes is None else f"item too large: {size_bytes} bytes")
        self.size_bytes = size_bytes


class StoreRejected(StoreError):
    """A documented limit of the store refuses the request: certainly not applied, now and always.

    The cause is a defect of Odradek, or a name that is far too long; a retry is useless. Adapters log and count it, for
    an alarm (docs/OPERATIONS.md, `store-rejected`). `ItemTooLarge` is separate, because room in the item resolves it.
    """


class ObjectExists(StoreError):
    """A create-only upload met an existing object under that key."""


class ObjectMissing(StoreError):
    """The object does not exist."""


class StoreUnavailable(StoreError):
    """Throttled, contended or unreachable before sending: certainly not applied; retry with back-off."""


class TransactionConflict(StoreUnavailable):
    """Refused because another transaction is writing an item of the call: certainly not applied; retry."""


class StoreFull(StoreUnavailable):
    """The disk of an embedded store is full: a retry succeeds after space is freed."""


class OutcomeUnknown(StoreError):
    """The write may or may not have been applied (timeout after sending): read back before answering."""
