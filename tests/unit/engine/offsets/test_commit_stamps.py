"""Stamps order the commits of a partition: one that arrives late, or twice, changes nothing."""

from __future__ import annotations

from uuid import UUID

import pytest
from odradek.adapters.memory import MemoryTable
from odradek.engine.groups.leases import decode_lease, lease_slot
from odradek.engine.offsets.decisions import Committer, commit_operation, decide_refusal
from odradek.errors import ConditionFailed, ErrorCode
from odradek.model.topic_partition import OffsetAndMetadata, PartitionId
from odradek.ports.table import Exists, Set, Update

SLOT = lease_slot("g", PartitionId(UUID(int=7), 0))
STAMP_MS = 1_000


async def commit(table: MemoryTable, offset: int, stamp_ms: int) -> None:
    await table.update(commit_operation(SLOT, "t", OffsetAndMetadata(offset), Committer(), stamp_ms))


@pytest.mark.parametrize("late_ms", [0, 1, 500])
async def test_a_commit_that_is_not_newer_is_refused_and_says_what_to_exceed(late_ms: int) -> None:
    table = MemoryTable()
    await commit(table, 9, STAMP_MS)
    with pytest.raises(ConditionFailed) as refused:
        await commit(table, 5, STAMP_MS - late_ms)
    assert decide_refusal(refused.value.current, SLOT, Committer()) == STAMP_MS
    lease = decode_lease((await table.get(SLOT.key)) or {})
    assert lease.committed is not None
    assert lease.committed.offset == 9


async def test_a_commit_under_an_epoch_before_the_grant_is_refused() -> None:
    table = MemoryTable()
    await commit(table, 5, STAMP_MS)
    await table.update(Update(SLOT.key, (Set(("o",), "m"), Set(("e",), 5)), Exists(("v",))))
    with pytest.raises(ConditionFailed) as refused:
        late = commit_operation(SLOT, "t", OffsetAndMetadata(9), Committer("m", 4), STAMP_MS + 1)
        await table.update(late)
    assert decide_refusal(refused.value.current, SLOT, Committer("m", 4)) is ErrorCode.STALE_MEMBER_EPOCH
    await table.update(commit_operation(SLOT, "t", OffsetAndMetadata(9), Committer("m", 5), STAMP_MS + 1))
