"""Planted bugs: what the simulation must find.

Each is a patch of the engine, in force inside a `with`; nothing in what is shipped knows of them. A bug is found in a
scenario that gives it a chance, within a bounded number of seeds (tests/integration/simulation/test_planted_bugs.py).
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from odradek.engine.append import conditional_append
from odradek.engine.append import decisions as append_decisions
from odradek.engine.append.conditional_append import Appended, ConditionalAppend
from odradek.engine.append.decisions import Applied
from odradek.engine.append.wal import Wal
from odradek.engine.groups import decisions as group_decisions
from odradek.engine.offsets import decisions as offset_decisions
from odradek.engine.partition import spill, spill_decisions
from odradek.engine.partition.head import PartitionHead, ProducerState, encode_producer, head_key
from odradek.engine.partition.index import PartitionIndex, SequenceClause
from odradek.engine.partition.spill import Spills
from odradek.engine.read import fetch
from odradek.errors import StoreError
from odradek.ports.table import AllOf, Compare, Condition, Contains, Exists, Not, Set, Update

from tests.simulation.ports import Fates
from tests.simulation.scenario import Scenario

Patch = Callable[[], Any]
_BACKGROUND: set[asyncio.Task[None]] = set()
_SESSION = {"group_session_timeout_ms": 3_000}
_TRUE = Exists(("v",))


@dataclass(frozen=True)
class Planted:
    """A bug, and where it shows.

    Attributes:
        patch: makes the context manager that plants it.
        profile: the kind of scenario.
        change: what of the drawn scenario must be otherwise for the bug to have a chance.
        seeds: how many seeds from 1 are tried at most.
    """

    patch: Patch
    profile: str = "log"
    change: Callable[[Scenario], Scenario] | None = None
    seeds: int = 10


PLANTED: dict[str, Planted] = {}


def bug(
    profile: str = "log", *, seeds: int = 10, change: Callable[[Scenario], Scenario] | None = None
) -> Callable[[Patch], Patch]:
    """Register a function that plants a bug while it is suspended at its `yield`."""

    def register(function: Patch) -> Patch:
        planted = contextmanager(function)
        PLANTED[function.__name__] = Planted(planted, profile, change, seeds)
        return planted

    return register


def settings(**values: Any) -> Callable[[Scenario], Scenario]:
    """A change of the scenario's settings."""
    return lambda scenario: replace(scenario, settings={**scenario.settings, **values})


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


def without(condition: Condition | None, dropped: Callable[[Condition], bool]) -> Condition | None:
    """The condition without some of its clauses."""
    if isinstance(condition, AllOf):
        return AllOf(tuple(each for each in condition.conditions if not dropped(each)))
    return condition


class _Rewriting:
    """A table whose updates are changed on their way."""

    def __init__(self, table: Any, rewrite: Callable[[Update], Update]) -> None:
        self._table = table
        self._rewrite = rewrite

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    async def update(self, update: Update) -> Any:
        return await self._table.update(self._rewrite(update))


def rewritten_append(rewrite: Callable[[Update], Update]) -> Any:
    """A patch under which appends are changed on their way to the table."""
    original = PartitionIndex.append

    async def append(self: PartitionIndex, *args: Any, **kwargs: Any) -> Any:
        other = copy.copy(self)
        other._log = _Rewriting(self._log, rewrite)  # type: ignore[assignment]
        return await original(other, *args, **kwargs)

    return patch.object(PartitionIndex, "append", append)


# --- append -------------------------------------------------------------------------------------------------------


@bug()
def ack_before_the_update() -> Iterator[None]:
    """The answer does not wait for the conditional update."""
    original = ConditionalAppend.run

    async def run(self: ConditionalAppend, deadline_s: float) -> Any:
        try:
            head = await self._tools.index.read_head(self._partition)
        except StoreError:
            head = None
        if head is None:
            return await original(self, deadline_s)
        self.head = head
        _in_background(original(self, deadline_s))
        return Appended(head.next_offset, head, 0)

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

    def clause(chain: Any) -> SequenceClause:
        state = ProducerState(chain[0].producer_epoch, append_decisions._after(chain))
        return SequenceClause(_TRUE, Set(("p", str(chain[0].producer_id)), encode_producer(state)))

    with patch.object(append_decisions, "_follows", clause), patch.object(append_decisions, "_blind", clause):
        yield


@bug()
def blind_retry_under_a_new_identity() -> Iterator[None]:
    """An update of unknown outcome is sent again as another entry."""
    original = ConditionalAppend._attempt

    async def attempt(self: ConditionalAppend, *args: Any) -> Any:
        answer = await original(self, *args)
        if answer is None and self._maybe_applied:
            await self._upload_again()
        return answer

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
    """What was appended before is acknowledged at the log's end."""
    original = conditional_append.after_refusal

    def after_refusal(*args: Any, **options: Any) -> Any:
        verdict = original(*args, **options)
        head = next(each for each in args if isinstance(each, PartitionHead))
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
    with patch.object(spill, "_still_idle", lambda evictable, seen, now: evictable & now.producers.keys()):
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
        answer = original(*args)
        return replace(answer, high_watermark=answer.high_watermark + 1)

    with patch.object(fetch, "_result", result):
        yield


# --- groups -------------------------------------------------------------------------------------------------------


def _busy_group(scenario: Scenario) -> Scenario:
    """Members that stall longer than their session, over and over."""
    return replace(scenario, fates=Fates(stall=0.03), group_members=3, settings={**scenario.settings, **_SESSION})


@bug("groups", change=_busy_group, seeds=20)
def commit_of_a_former_owner() -> Iterator[None]:
    """A commit is taken from whoever sends it."""
    with patch.object(offset_decisions, "_may_commit", lambda committer: (_TRUE,)):
        yield


def _late_commits(scenario: Scenario) -> Scenario:
    """Members that stay, and commits that arrive after later ones."""
    return replace(scenario, fates=Fates(crash=0, stall=0, late=0.15), group_turns=40)


@bug("groups")
def target_that_stands_for_ever() -> Iterator[None]:
    """Who joins or leaves after a target was computed is never assigned for."""
    with patch.object(group_decisions, "_stands_for_ms", lambda group, now_ms: int(group.epoch > 0)):
        yield


@bug("groups", change=_late_commits)
def commit_without_a_stamp() -> Iterator[None]:
    """A commit that arrives late puts back an older offset."""
    with patch.object(offset_decisions, "_is_newer", lambda stamp_ms: _TRUE):
        yield
