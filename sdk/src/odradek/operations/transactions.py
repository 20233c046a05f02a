"""Transactional ids with their transactions."""

from __future__ import annotations

from dataclasses import dataclass

from odradek.client.admin.admin import Admin
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
    rows = []
    for at in range(0, len(names), _AT_ONCE):
        try:
            found = await admin.describe_transactions(names[at : at + _AT_ONCE])
        except KafkaError as error:
            if error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:  # it expired meanwhile
                continue
            raise
        rows += [
            TransactionRow(
                each.transactional_id,
                each.state,
                each.producer_id,
                each.producer_epoch,
                each.timeout_ms,
                None if each.start_ms is None or each.state == "Empty" else max(0, now_ms - each.start_ms),
                tuple(map(str, each.partitions)),
            )
            for each in found.values()
        ]
    return sorted(rows, key=lambda row: (-(row.age_ms or -1), row.transactional_id))
