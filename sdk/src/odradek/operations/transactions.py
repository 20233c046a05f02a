"""Transactional ids with their transactions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odradek.client.admin.admin import Admin
from odradek.client.types import TransactionDescription
from odradek.errors import ErrorCode, KafkaError

_AT_ONCE = 100  # described in one request


@dataclass(frozen=True, slots=True)
class TransactionRow:
    """A transactional id."""

    transactional_id: str
    state: str  # Empty | Ongoing | CompleteCommit | CompleteAbort ...
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    age_ms: int | None  # of the open transaction
    partitions: tuple[str, ...]  # that the open transaction has written

    @property
    def is_open(self) -> bool:
        return self.age_ms is not None


async def list_transactions(admin: Admin, now_ms: int) -> list[TransactionRow]:
    """Return the transactional ids that the caller may describe; open transactions come first, the oldest on top."""
    names = sorted(each.transactional_id for each in await admin.list_transactions())
    described: list[TransactionDescription] = []
    for at in range(0, len(names), _AT_ONCE):
        described += await _describe(admin, names[at : at + _AT_ONCE])
    rows = [
        TransactionRow(
            each.transactional_id,
            each.state,
            each.producer_id,
            each.producer_epoch,
            each.timeout_ms,
            None if each.start_ms is None or each.state == "Empty" else max(0, now_ms - each.start_ms),
            tuple(map(str, each.partitions)),
        )
        for each in described
    ]
    return sorted(rows, key=lambda row: (-(row.age_ms or -1), row.transactional_id))


async def _describe(admin: Admin, names: Sequence[str]) -> list[TransactionDescription]:
    """Describe ids without those that have expired since they were listed: halves are asked for, down to that id."""
    try:
        return list((await admin.describe_transactions(names)).values())
    except KafkaError as error:
        if error.code not in (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED):
            raise
    if len(names) == 1:
        return []
    middle = len(names) // 2
    return [*await _describe(admin, names[:middle]), *await _describe(admin, names[middle:])]
