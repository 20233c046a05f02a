"""Planted bugs of the log: append, spill, producer state, fetch."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from odradek.engine.append import conditional_append
from odradek.engine.append import decisions as append_decisions
from odradek.engine.append.conditional_append import ConditionalAppend
from odradek.engine.append.decisions import Applied
from odradek.engine.append.member import Appended, Outcome
from odradek.engine.append.wal import Wal
from odradek.engine.partition import spill, spill_decisions
from odradek.engine.partition.head import PartitionHead, ProducerState, head_key
from odradek.engine.partition.producer_places import SequenceClause
from odradek.engine.partition.shared_head import view_of
from odradek.engine.partition.spill import Spills
from odradek.engine.read import fetch
from odradek.engine.read.read_ahead import Blocks
from odradek.errors import StoreError
from odradek.ports.table import Compare, Condition, Contains, Exists, Not, Update

from tests.simulation.plan import Scenario
from tests.simulation.planted.bug import bug, rewritten_append, settings, without
from tests.simulation.store.ports import Fates

_BACKGROUND: set[asyncio.Task[None]] = set()
_TRUE = Exists(("v",))


def _in_background(work: Any) -> None:
    """Let the work go on by itself; a crash of its process ends it."""

    async def act() -> None:
        try:
            await work
        except StoreError:
            return

    task = asyncio.ensure_future(act())
    _BACKGROUND.add(task)
    task.add_done_callback(_BACKGROUND.discard)


# --- append -------------------------------------------------------------------------------------------------------


@bug()
def ack_before_the_update() -> Iterator[None]:
    """The answer does not wait for the conditional update."""
    original = ConditionalAppend.run

    async def run(self: ConditionalAppend, deadline_s: float) -> None:
        try:
            image = await self._tools.index.read_image(self._head_id)
        except StoreError:
            image = None
        if image is None:
            return await original(self, deadline_s)
        tell, members = self._on_settled, list(self._members)
        self._on_settled = lambda *_: None
        _in_background(original(self, deadline_s))
        for member in members:
            head = view_of(image, member.partition)
            appended = Appended(head.next_offset, head.log_start_offset, 0)
            tell(member, Outcome(appended, head, partition_is_gone=False))
        return None

    with patch.object(ConditionalAppend, "run", run):
        yield


@bug()
def offset_before_the_upload() -> Iterator[None]:
    """The update does not wait for the bytes to be durable."""
    original = Wal.upload

    async def upload(self: Wal, object_id: bytes, parts: Any) -> int:
        _in_background(original(self, object_id, parts))
        return 1 if sum(map(len, parts)) <= self._settings.item_bytes_max else 0

    with patch.object(Wal, "upload", upload):
        yield


@bug()
def append_without_the_sequence_clause() -> Iterator[None]:
    """The producer's sequence is written but not compared."""

    def clause(chain: Any, places: Any, is_there: bool = False) -> SequenceClause:
        state = ProducerState(chain[0].producer_epoch, append_decisions._after(chain))
        return replace(places.starts(chain[0].producer_id, state, is_there=is_there), condition=_TRUE, common=None)

    with patch.object(append_decisions, "_follows", clause), patch.object(append_decisions, "_blind", clause):
        yield


@bug()
def blind_retry_under_a_new_identity() -> Iterator[None]:
    """An update of unknown outcome is sent again as another entry."""
    original = ConditionalAppend._attempt

    async def attempt(self: ConditionalAppend, *args: Any) -> Any:
        was_applied = await original(self, *args)
        if was_applied is False and self._maybe_applied:
            await self._upload_again()
        return was_applied

    with patch.object(ConditionalAppend, "_attempt", attempt):
        yield


@bug()
def append_without_contains() -> Iterator[None]:
    """An update may be applied twice while its entry is in the tail."""

    def is_contains(condition: Condition) -> bool:
        return isinstance(condition, Not) and isinstance(condition.condition, Contains)

    with rewritten_append(lambda update: replace(update, condition=without(update.condition, is_contains))):
        yield


@bug()
def conditional_produce_ignores_the_expectation() -> Iterator[None]:
    """A conditional append goes wherever the log ends."""

    def is_expectation(condition: Condition) -> bool:
        return isinstance(condition, Compare) and condition.path == ("no",)

    with rewritten_append(lambda update: replace(update, condition=without(update.condition, is_expectation))):
        yield


@bug()
def duplicate_answered_with_a_new_offset() -> Iterator[None]:
    """A batch that was appended before is acknowledged at the log's end."""
    original = conditional_append.after_refusal

    def after_refusal(*args: Any, **options: Any) -> Any:
        verdict = original(*args, **options)
        head = next(arg for arg in args if isinstance(arg, PartitionHead))
        return Applied(head.next_offset) if isinstance(verdict, Applied) else verdict

    with patch.object(conditional_append, "after_refusal", after_refusal):
        yield


def _late_appends(scenario: Scenario) -> Scenario:
    """Short tails, and updates that arrive after others."""
    scenario = settings(head_bytes_max=400, spill_entries=1)(scenario)
    return replace(scenario, fates=Fates(late=0.1, crash=0, stall=0), idempotent_share=0.3, producers=4)


def _crowded(scenario: Scenario) -> Scenario:
    """More producers than a head has room for."""
    scenario = settings(head_bytes_max=400, spill_entries=1, producers_in_head_max=1)(scenario)
    return replace(scenario, idempotent_share=1.0, producers=5, topics=scenario.topics[:1])


def _full_house(scenario: Scenario) -> Scenario:
    """As many producers as there may be, a spill of as many entries, and records to fill a tail beyond its bound."""
    scenario = settings(spill_entries=120, producers_in_head_max=500)(scenario)
    fates = Fates(crash=0, stall=0, late=0)
    return replace(scenario, producers=200, records_of=6, pace_s=0.05, write_units=0, maintainers=0, fates=fates)


# --- spill --------------------------------------------------------------------------------------------------------


@bug(change=settings(head_bytes_max=400, spill_entries=1))
def spill_removes_before_it_writes() -> Iterator[None]:
    """The head forgets entries whose row is not written yet."""
    original = Spills.run

    async def run(self: Spills, partition: Any, head: Any) -> None:
        row = spill_decisions.oldest_row(head, self._settings.spill_entries)
        step = spill_decisions.next_forget(head, row)
        await self._log.update(Update(head_key(partition), step.actions, step.condition))
        await original(self, partition, head)

    with patch.object(Spills, "run", run):
        yield


@bug(change=_late_appends, seeds=30)
def spill_does_not_raise_the_floor() -> Iterator[None]:
    """A late update may be applied again once its entry has left the tail."""
    original = spill_decisions.next_forget

    def forget(*args: Any) -> Any:
        step = original(*args)
        return replace(step, actions=tuple(action for action in step.actions if action.path != ("sf",)))

    with patch.object(spill, "next_forget", forget):
        yield


@bug(change=_crowded, seeds=20)
def eviction_loses_the_producer() -> Iterator[None]:
    """A producer leaves the head and its row is not written."""

    async def write(self: Spills, *_: Any) -> bool:
        return True

    with patch.object(Spills, "_write_producer_row", write):
        yield


@bug(change=_crowded, seeds=20)
def eviction_of_who_wrote_meanwhile() -> Iterator[None]:
    """A refused spill is tried again by the new head, but the rows of those that leave are of the old one."""
    with patch.object(spill, "_still_idle", lambda evictable, seen_head, now: evictable & now.producers.keys()):
        yield


@bug("crowd", seeds=3, change=_full_house)
def spill_in_one_unbounded_update() -> Iterator[None]:
    """The head forgets by one update, whatever it has to note: beyond DynamoDB's limits, with enough producers."""
    with (
        patch.object(spill_decisions, "SPILL_PRODUCERS_MAX", 10**6),
        patch.object(spill_decisions, "SPILL_SETTLED_MAX", 10**6),
    ):
        yield


@bug("crowd", seeds=3, change=_full_house)
def spill_gives_up_where_producers_crowd() -> Iterator[None]:
    """A head that has more producers than one update has room for is left as it is."""
    original = Spills.run

    async def run(self: Spills, partition: Any, head: Any) -> None:
        if len(head.producers) <= 40:
            await original(self, partition, head)

    with patch.object(Spills, "run", run):
        yield


# --- read ---------------------------------------------------------------------------------------------------------


@bug()
def fetch_beyond_the_high_watermark() -> Iterator[None]:
    """A consumer is told of offsets that are not there yet."""
    original = fetch._result

    def result(*args: Any) -> Any:
        result_before = original(*args)
        return replace(result_before, high_watermark=result_before.high_watermark + 1)

    with patch.object(fetch, "_result", result):
        yield


@bug(change=settings(read_ahead_bytes=3_000, item_bytes_max=0, uploads_kept_bytes=0))
def a_block_is_known_by_its_place_alone() -> Iterator[None]:
    """Bytes that were read ahead of one object are returned for another."""
    holding = Blocks._holding

    def any_object(self: Blocks, key: str, at: int) -> Any:
        return next((block for start in self._starts if (block := holding(self, start, at)) is not None), None)

    with patch.object(Blocks, "_holding", any_object):
        yield
