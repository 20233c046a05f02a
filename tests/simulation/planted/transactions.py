"""Planted bugs of transactions and leaders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from odradek.engine.leaders import leaders
from odradek.engine.partition.claims import Claim
from odradek.engine.partition.head import PartitionHead
from odradek.engine.partition.head_append import PartitionAppend
from odradek.engine.transactions import commit, transactions
from odradek.format.tail_entry import TailEntry
from odradek.ports.table import Absent, AnyOf, Check, Condition, Delete, Exists, Put, Set
from odradek.ports.tables import TableOperation

from tests.simulation.plan import Scenario, TopicPlan
from tests.simulation.planted.bug import bug
from tests.simulation.store.ports import SimTables


@bug("transactions")
def transaction_applied_piece_by_piece() -> Iterator[None]:
    """Heads, leases and row are written one after the other."""

    async def transact(self: SimTables, operations: Sequence[TableOperation]) -> None:
        for name, operation in operations:
            table = getattr(self, name)
            if isinstance(operation, Put):
                await table.put(operation)
            elif isinstance(operation, Delete):
                await table.delete(operation)
            elif not isinstance(operation, Check):
                await table.update(operation)

    with patch.object(SimTables, "transact", transact):
        yield


@bug("transactions")
def transaction_without_its_offsets() -> Iterator[None]:
    """The records are committed, the consumer's progress is not."""
    original = SimTables.transact

    async def transact(self: SimTables, operations: Sequence[TableOperation]) -> None:
        await original(
            self, [operation if operation.table != "groups" else _nothing(operation) for operation in operations]
        )

    with patch.object(SimTables, "transact", transact):
        yield


def _nothing(operation: TableOperation) -> TableOperation:
    either = AnyOf((Exists(("v",)), Absent(("v",))))
    return TableOperation(operation.table, Check(operation.operation.key, either))


@bug("transactions", seeds=20)
def transaction_of_a_fenced_producer() -> Iterator[None]:
    """An older instance of a transactional id goes on."""

    def check_producer(row: Any, producer_id: int, producer_epoch: int) -> Any:
        assert row is not None
        return row

    with patch.object(transactions, "check_producer", check_producer):
        yield


@bug("transactions", seeds=20)
def aborted_transaction_is_committed() -> Iterator[None]:
    """EndTxn does not look at what is asked."""
    original = transactions.Transactions.end

    async def end(self: Any, *args: Any, commit: bool, **options: Any) -> Any:
        return await original(self, *args, commit=True, **options)

    with patch.object(transactions.Transactions, "end", end):
        yield


def _told(scenario: Scenario) -> Scenario:
    """Offsets are told for a partition into which another producer writes about as often as the transactor."""
    return replace(
        scenario,
        topics=(TopicPlan("alpha", 1), TopicPlan("beta", 1, {"transaction.offsets": "predicted"})),
        producers=2,
        records_of=150,
        chains=(("alpha", "beta"),),
        transactors=1,
        transactor_turns=100,
        transactional_members=(),
        gateways=0,
        maintainers=0,
        pace_s=0.3,
    )


@bug("transactions", seeds=20, change=_told)
def told_offset_is_not_in_the_commits_condition() -> Iterator[None]:
    """A commit compares told offsets with the heads that it has read, and not in its condition."""

    def forgetful(
        partition: Any, entries: Any, clauses: Any, expected_offset: int | None, *more: Any
    ) -> PartitionAppend:
        return PartitionAppend(partition, entries, clauses, None, *more)

    with patch.object(commit, "PartitionAppend", forgetful):
        yield


@bug("transactions", change=_told)
def prediction_forgets_what_the_transaction_holds() -> Iterator[None]:
    """Each batch is told the offset at which the log ends now, and only the first one's is compared."""

    def predict(first: TailEntry, head: PartitionHead, *args: Any) -> int:
        return head.next_offset

    def keeps(offsets_told: Mapping[int, int], entries: Sequence[TailEntry], next_offset: int) -> bool:
        return offsets_told.get(entries[0].base_sequence, next_offset) == next_offset if entries else True

    with patch.object(transactions, "predict", predict), patch.object(commit, "keeps_told_offsets", keeps):
        yield


# --- leaders ------------------------------------------------------------------------------------------------------


@bug("leaders")
def leader_taken_without_a_new_epoch() -> Iterator[None]:
    """A gateway takes a partition and keeps the epoch."""
    original = leaders.handover

    def handover(*args: Any, **options: Any) -> Any:
        condition, actions = original(*args, **options)
        return condition, tuple(a for a in actions if not (isinstance(a, Set) and a.path == ("le",)))

    with patch.object(leaders, "handover", handover):
        yield


@bug("leaders", seeds=20)
def append_of_a_former_leader() -> Iterator[None]:
    """An append does not ask who leads."""

    def condition(self: Claim) -> Condition:
        return Exists(("v",))

    def holds(self: Claim, head: Any) -> bool:
        return True

    with patch.object(Claim, "condition", property(condition)), patch.object(Claim, "holds", holds):
        yield
