"""Answers to appends that were refused by the store, or whose outcome is not known."""

from __future__ import annotations

from odradek.engine.append.decisions import Reject
from odradek.errors import ErrorCode, ItemTooLarge, StoreError, StoreFull, StoreRejected

NOT_APPENDED = Reject(
    ErrorCode.NOT_ENOUGH_REPLICAS,
    "the store refused the write for now; nothing was appended: send the request again",
)
NO_ROOM = Reject(
    ErrorCode.KAFKA_STORAGE_ERROR,
    "the store has no room left: its disk is full; nothing was appended: make room and send the request again",
)
MAYBE_APPENDED = Reject(
    ErrorCode.REQUEST_TIMED_OUT,
    "the store did not confirm in time that the batch was appended: an idempotent producer may send it again",
)
REJECTED = Reject(
    ErrorCode.INVALID_RECORD,
    "the store rejects this write permanently; nothing was appended, and a retry is useless: see the service's log "
    "for the reason",
)
APART = Reject(ErrorCode.NOT_ENOUGH_REPLICAS, "these batches were not appended together: append each by itself")
GONE = Reject(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the partition does not exist: its topic may have been deleted")


def not_uploaded(error: StoreError) -> Reject:
    """Return the result of a failed upload, to which nothing refers."""
    if isinstance(error, (ItemTooLarge, StoreRejected)):
        return REJECTED
    return NO_ROOM if isinstance(error, StoreFull) else NOT_APPENDED
