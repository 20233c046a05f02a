"""Planted bugs of heads that partitions share: appends to several of them, pages, the spill of pages, who leads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from odradek.engine.append import conditional_append, fitting
from odradek.engine.append.conditional_append import ConditionalAppend
from odradek.engine.append.decisions import Try
from odradek.engine.append.member import Member
from odradek.engine.maintenance import sweep
from odradek.engine.partition import claims, producer_places, shared_spill
from odradek.engine.partition.extents import Extent
from odradek.engine.partition.head import PartitionHead
from odradek.engine.partition.head_append import PartitionAppend
from odradek.engine.partition.index import PartitionIndex
from odradek.engine.partition.producer_rows import ProducerRows
from odradek.engine.partition.shared_head import Page, SharedHead
from odradek.engine.partition.shared_spill import SharedSpills
from odradek.ports.table import AllOf, Copy, Update

from tests.simulation.plan import Scenario
from tests.simulation.planted.bug import as_expressions, bug, settings
from tests.simulation.store.ports import Fates

PER_HEAD = 3
_SHORT_TAILS = settings(head_bytes_max=400, spill_entries=1, paged_appends=3)


def _late(scenario: Scenario) -> Scenario:
    """Short tails, and updates that arrive after others, mostly of plain producers."""
    scenario = _SHORT_TAILS(scenario)
    return replace(scenario, fates=Fates(late=0.1, crash=0, stall=0), idempotent_share=0.3, producers=4)


def _unconfirmed(scenario: Scenario) -> Scenario:
    """Plain producers of several partitions, and answers that are lost."""
    fates = Fates(crash=0, stall=0, late=0, lost_answer=0.2, losing=frozenset({"log.update"}))
    return replace(_SHORT_TAILS(scenario), fates=fates, idempotent_share=0.0, producers=4)


# --- append -------------------------------------------------------------------------------------------------------


@bug(per_head=PER_HEAD)
def only_the_first_partition_is_asked() -> Iterator[None]:
    """An update of several partitions has the sequences of one of them in its condition."""
    original = PartitionIndex.append_update

    def append_update(self: PartitionIndex, head_id: Any, parts: Any, *args: Any) -> Update:
        update = as_expressions(original(self, head_id, parts, *args))
        assert isinstance(update.condition, AllOf)
        spared = {id(clause.condition) for part in parts[1:] for clause in part.clauses}
        kept = tuple(condition for condition in update.condition.conditions if id(condition) not in spared)
        return replace(update, condition=AllOf(kept))

    with patch.object(PartitionIndex, "append_update", append_update):
        yield


class _WithTold:
    """An index that appends what was told already once more."""

    def __init__(self, index: PartitionIndex, members: list[Member]) -> None:
        self._index, self._told = index, members

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)

    async def append_all(self, head_id: Any, parts: Any, claim: Any) -> Any:
        again = [PartitionAppend(member.partition, member.entries) for member in self._told]
        return await self._index.append_all(head_id, (*parts, *again), claim)


@bug(per_head=PER_HEAD)
def refused_partition_is_sent_again_with_the_others() -> Iterator[None]:
    """A partition that has its answer stays in the element that the others send again."""
    original = ConditionalAppend._attempt

    async def attempt(self: ConditionalAppend, verdicts: Any, attempt: int) -> bool:
        everybody = self.__dict__.setdefault("_everybody", list(self._members))
        others = [member for member in everybody if member not in self._members]
        tools = self._tools
        self._tools = replace(tools, index=_WithTold(tools.index, others))  # type: ignore[arg-type]
        try:
            return await original(self, verdicts, attempt)
        finally:
            self._tools = tools

    with patch.object(ConditionalAppend, "_attempt", attempt):
        yield


@bug(per_head=PER_HEAD, change=_unconfirmed)
def plain_batches_part_after_an_unknown_outcome() -> Iterator[None]:
    """Batches that were sent as one element, and may have been applied, are sent again partition by partition."""
    original = ConditionalAppend._attempt

    async def attempt(self: ConditionalAppend, verdicts: Any, attempt: int) -> bool:
        is_known = await original(self, verdicts, attempt)
        if not is_known and len(self._members) > 1:
            for member in self._members[1:]:
                self._members.remove(member)
                parted = ConditionalAppend(self._tools, [member], self._on_settled, is_new=False)
                await parted.run(self._deadline_s)
        return is_known

    with patch.object(ConditionalAppend, "_attempt", attempt):
        yield


@bug(per_head=PER_HEAD, change=_unconfirmed)
def element_is_sent_again_in_another_order() -> Iterator[None]:
    """An element that may have been applied is sent again as another one with the same batches."""
    original = ConditionalAppend._attempt

    async def attempt(self: ConditionalAppend, verdicts: Any, attempt: int) -> bool:
        is_known = await original(self, verdicts, attempt)
        if not is_known and len(self._members) > 1:
            self._members.reverse()
        return is_known

    with patch.object(ConditionalAppend, "_attempt", attempt):
        yield


def _narrow(scenario: Scenario) -> Scenario:
    """Merged calls of which one update takes a small part."""
    return replace(scenario, narrow=12)


@bug("merged", per_head=24, change=_narrow)
def what_does_not_fit_is_acknowledged_with_the_others() -> Iterator[None]:
    """An update takes some of the partitions, and all are told that they are in the log."""
    original = PartitionIndex.append_all

    async def append_all(self: PartitionIndex, head_id: Any, parts: Any, claim: Any) -> Any:
        count = fitting.fitting(parts, lambda some: self.append_update(head_id, some, claim))
        return await original(self, head_id, parts[:count], claim)

    with (
        patch.object(conditional_append, "fitting", lambda parts, _: len(parts)),
        patch.object(PartitionIndex, "append_all", append_all),
    ):
        yield


@bug("merged", per_head=24, change=_narrow)
def what_does_not_fit_is_sent_without_its_conditions() -> Iterator[None]:
    """The second update of a call goes by what the first one has proved."""
    original = ConditionalAppend._parted_with

    def parted_with(self: ConditionalAppend, members: Any) -> ConditionalAppend:
        parted = original(self, members)
        parted._next = lambda image: parted._all(Try())  # type: ignore[method-assign]
        parted._blind = lambda member, elements: Try()  # type: ignore[method-assign]
        return parted

    with patch.object(ConditionalAppend, "_parted_with", parted_with):
        yield


# --- pages --------------------------------------------------------------------------------------------------------


@bug(per_head=PER_HEAD, change=_SHORT_TAILS)
def head_forgets_before_the_page_is_written() -> Iterator[None]:
    """Elements leave the tail, and nothing has them."""

    async def write(self: SharedSpills, head_id: Any, page: Page) -> Page:
        return page

    with patch.object(SharedSpills, "_write_page", write):
        yield


@bug(per_head=PER_HEAD, change=_late, seeds=30)
def page_does_not_raise_the_floor() -> Iterator[None]:
    """A late update may be applied again once its element is in a page."""
    original = shared_spill._page_of

    def page_of(head: SharedHead, keep: int) -> Page:
        return replace(original(head, keep), spill_floor_ms=head.spill_floor_ms)

    with patch.object(shared_spill, "_page_of", page_of):
        yield


@bug(per_head=PER_HEAD, change=_SHORT_TAILS)
def spill_forgets_a_partition() -> Iterator[None]:
    """Pages become rows of all partitions but one."""
    original = shared_spill.rows_of

    def rows_of(*args: Any) -> Any:
        rows = dict(original(*args))
        if len(rows) > 1:
            del rows[max(rows)]
        return rows

    with patch.object(shared_spill, "rows_of", rows_of):
        yield


@bug(per_head=PER_HEAD, change=_SHORT_TAILS)
def pages_are_deleted_before_the_rows_are_there() -> Iterator[None]:
    """A reader finds the elements neither in pages nor in rows."""
    original = SharedSpills._write_row

    async def write_row(self: SharedSpills, head_id: Any, position: int, row: Any) -> None:
        await self._pages.delete_old(head_id, SharedHead(indexed=10**12, merged_offsets=dict.fromkeys("012", 10**12)))
        await original(self, head_id, position, row)

    with patch.object(SharedSpills, "_write_row", write_row):
        yield


def _merged_soon(scenario: Scenario) -> Scenario:
    """Short tails whose rows are merged as soon as there are any."""
    return settings(merge_rows_min=1, merge_delay_ms=0, merge_age_ms=0)(_SHORT_TAILS(scenario))


@bug("upkeep", per_head=PER_HEAD, change=_merged_soon, seeds=30)
def pages_are_deleted_with_the_first_merge() -> Iterator[None]:
    """Rows of the other partitions refer to them."""

    def is_needed(self: Extent, merged_offsets: Any) -> bool:
        return all(merged_offsets.get(partition, 0) < offset for partition, offset in self.end_offsets.items())

    with patch.object(Extent, "is_needed", is_needed):
        yield


@bug("upkeep", per_head=PER_HEAD, change=_merged_soon, seeds=30)
def rows_are_written_without_an_extent() -> Iterator[None]:
    """Nothing says until when the pages are needed that rows refer to."""

    async def write(*_: Any) -> None:
        return None

    with patch.object(SharedSpills, "_write_extent", write):
        yield


@bug("upkeep", per_head=PER_HEAD, change=_SHORT_TAILS, seeds=30)
def sweep_takes_a_row_for_empty_that_refers() -> Iterator[None]:
    """Entries in pages that only rows refer to count as unreferenced."""

    async def with_entries(index: Any, partition: Any, rows: Any, *_: Any) -> Any:
        return rows

    with patch.object(sweep, "_with_entries", with_entries):
        yield


@bug("upkeep", per_head=PER_HEAD, change=_SHORT_TAILS, seeds=30)
def sweep_does_not_look_into_pages() -> Iterator[None]:
    """Entries in pages count as unreferenced."""

    async def with_pages(self: PartitionIndex, partition: Any, image: Any) -> Any:
        return (image.view(partition) if isinstance(image, SharedHead) else image), ()

    with patch.object(PartitionIndex, "with_pages", with_pages):
        yield


# --- producers and leaders ----------------------------------------------------------------------------------------


def _crowded(scenario: Scenario) -> Scenario:
    """More producers than a head has room for: each leaves it with the next page, and comes back."""
    scenario = _SHORT_TAILS(settings(producers_bytes_max=1, producer_idle_ms=0)(scenario))
    return replace(scenario, idempotent_share=1.0, producers=5, topics=scenario.topics[:1])


@bug(per_head=PER_HEAD, change=_crowded, seeds=20)
def stamps_leave_without_their_row() -> Iterator[None]:
    """A producer leaves the shared head and its row is not written."""

    async def write(self: ProducerRows, *_: Any, **__: Any) -> bool:
        return True

    with patch.object(ProducerRows, "write_stamps", write):
        yield


@bug(per_head=PER_HEAD, change=_crowded, seeds=20)
def who_returns_loses_its_other_partitions() -> Iterator[None]:
    """A producer comes back to a shared head with the sequences of the partitions that it writes to just then."""
    original = producer_places.joined

    def joined(clauses: Any) -> Any:
        return original(
            replace(clause, returns=clause.returns and replace(clause.returns, row={})) for clause in clauses
        )

    with patch("odradek.engine.partition.head_append.joined", joined):
        yield


@bug(per_head=PER_HEAD, change=_crowded, seeds=20)
def who_wrote_meanwhile_leaves_all_the_same() -> Iterator[None]:
    """A producer leaves a shared head with a row that says less than the head."""
    original = shared_spill._forgetting

    def forgetting(*args: Any, **options: Any) -> Update:
        update = original(*args, **options)
        assert isinstance(update.condition, AllOf)
        kept = tuple(
            condition for condition in update.condition.conditions if getattr(condition, "path", ("",))[0] != "p"
        )
        return replace(update, condition=AllOf(kept))

    with patch.object(shared_spill, "_forgetting", forgetting):
        yield


@bug(per_head=PER_HEAD, change=_crowded, seeds=300)
def who_is_in_the_tail_leaves() -> Iterator[None]:
    """A producer leaves with its batches still in the tail, so that turnover does not tell that it has left again."""
    with patch.object(shared_spill, "_ids_in", lambda _: set()):
        yield


@bug("throng", seeds=60)
def turnover_is_not_asked() -> Iterator[None]:
    """An append brings a producer back by a row that it read before the producer came, wrote more, and left again."""

    def turnover_bound(self: PartitionHead) -> int:
        return 10**9

    with patch.object(PartitionHead, "turnover_bound", property(turnover_bound)):
        yield


@bug("leaders", per_head=PER_HEAD)
def epoch_begins_where_the_first_partition_is() -> Iterator[None]:
    """The start of a leader epoch is kept from the epoch before."""
    original = claims.handover

    def handover(*args: Any, **options: Any) -> Any:
        condition, actions = original(*args, **options)
        return condition, tuple(action for action in actions if not isinstance(action, Copy))

    with patch("odradek.engine.leaders.leaders.handover", handover):
        yield
