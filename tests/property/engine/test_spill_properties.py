"""Spills of any head: every update fits, nothing is forgotten at any boundary, and an end is reached."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.adapters.expressions import State, after
from odradek.engine.partition.head import (
    PartitionHead,
    ProducerState,
    RecentBatch,
    decode_head,
    encode_head,
    head_key,
)
from odradek.engine.partition.index_row import IndexRow
from odradek.engine.partition.spill_decisions import eviction, next_forget, oldest_row, who_leaves
from odradek.format.tail_entry import TailEntry, encode_tail_entry
from odradek.limits import (
    OFFSET_MAX,
    SEQUENCE_MAX,
    SPILL_ENTRIES_MAX,
    SPILL_EVICTIONS_MAX,
    SPILL_SETTLED_MAX,
    TABLE_EXPRESSION_BYTES_MAX,
    TABLE_EXPRESSION_OPERATORS_MAX,
)
from odradek.model.topic_partition import PartitionId
from odradek.ports.expression_text import Expressions, condition_operators
from odradek.ports.table import Action, Condition, Item, Update
from odradek.settings import Settings
from odradek.testing.seeded_rng import SeededRng

from tests.support.examples import examples

PARTITION = PartitionId(UUID(int=2**128 - 1), 9_999)
EPOCH = 2**15 - 2
Batches = dict[int, tuple[RecentBatch, ...]]


def crowded_head(entries: int, producers: int, idle: int, seed: int) -> PartitionHead:
    """A head with so many entries of so many producers, and producers without any; the longest of all numbers."""
    rng = SeededRng(seed)
    base = OFFSET_MAX - 10 * entries - 10_000
    ids = [2**63 - 1 - number for number in range(producers + idle)]
    tail, at_work = [], set()
    for number in range(entries):
        producer_id = ids[int(rng.random() * producers)] if producers else -1
        at_work.add(producer_id)
        entry = TailEntry(
            bytes(16), 0, 2**32 - 1, 1, 2**62, producer_id, EPOCH, SEQUENCE_MAX - entries + number, 2**62 + number
        )
        tail.append(encode_tail_entry(entry))
    recent = tuple(RecentBatch(EPOCH, SEQUENCE_MAX - n, 1, base - 5_000 + n) for n in range(5))
    states = {
        producer_id: ProducerState(
            EPOCH, SEQUENCE_MAX, recent[: int(rng.random() * 6)] if producer_id in at_work else recent, 1
        )
        for producer_id in (*sorted(at_work - {-1}), *ids[producers:])
    }
    return PartitionHead(base + entries, 0, base, tail=tuple(tail), producers=states, evictions=2**40)


def applied(head: PartitionHead, condition: Condition, actions: tuple[Action, ...]) -> PartitionHead:
    """The head after an update of the spill, which must fit a request."""
    expressions = Expressions()
    texts = (expressions.update(actions), expressions.condition(condition))
    assert max(map(len, texts)) <= TABLE_EXPRESSION_BYTES_MAX
    assert condition_operators(condition) <= TABLE_EXPRESSION_OPERATORS_MAX
    key = head_key(PARTITION)
    item: Item | None = after(Update(key, actions, condition), State(encode_head(head), 0)).item
    assert item is not None
    return decode_head(item)


def recents(head: PartitionHead, rows: Batches) -> Batches:
    """Return the state of every producer, wherever it is stored: duplicates are answered from this."""
    return {**rows, **head.all_recent_batches(head.producers)}


def spilled(head: PartitionHead, row: IndexRow, settled: Settings) -> tuple[PartitionHead, Batches, int]:
    """Spill, an update at a time; check the state of producers after each."""
    before, rows, updates = recents(head, {}), {}, 0
    while True:
        step = next_forget(head, row)
        head = applied(head, step.condition, step.actions)
        updates += 1
        assert recents(head, rows) == before, "a crash here loses nothing"
        if step.is_last:
            break
    idle = who_leaves(head, None, settled)
    assert len(idle) <= SPILL_EVICTIONS_MAX
    for start in range(0, len(idle), SPILL_SETTLED_MAX):
        chunk = idle[start : start + SPILL_SETTLED_MAX]
        rows |= head.all_recent_batches(chunk)
        head = applied(head, *eviction(head, chunk))
        updates += 1
        assert recents(head, rows) == before
    return head, rows, updates


@pytest.mark.hypothesis
@settings(max_examples=examples(60), deadline=None)
@given(entries=st.integers(1, 600), producers=st.integers(0, 500), idle=st.integers(0, 600), seed=st.integers(0, 2**32))
def test_every_update_fits_and_nothing_is_forgotten(entries: int, producers: int, idle: int, seed: int) -> None:
    head = crowded_head(entries, producers, idle, seed)
    row = oldest_row(head, SPILL_ENTRIES_MAX)
    after_it, _, updates = spilled(head, row, Settings())
    assert len(after_it.tail) == max(0, entries - SPILL_ENTRIES_MAX)
    assert after_it.tail_base_offset == row.end_offset
    assert updates <= 2 + -(-SPILL_ENTRIES_MAX // SPILL_SETTLED_MAX) + -(-SPILL_EVICTIONS_MAX // SPILL_SETTLED_MAX)


def test_producers_leave_with_the_last_update_where_they_are_few() -> None:
    head = crowded_head(8, 8, 30, 1)
    row = oldest_row(head, 8)
    idle = who_leaves(head, row, Settings(producers_in_head_max=8))
    step = next_forget(head, row, idle)
    assert step.is_last
    assert len(idle) == len(head.producers)
    assert len(applied(head, step.condition, step.actions).producers) == 0, "silent for long, all of them"


def test_the_largest_updates() -> None:
    """As large as limits.py lets them be: its arithmetic is no lower than the text."""
    head = crowded_head(600, 250, 600, 1)
    row = oldest_row(head, SPILL_ENTRIES_MAX)
    few_entries = crowded_head(SPILL_ENTRIES_MAX, 40, 0, 2)
    assert next_forget(few_entries, oldest_row(few_entries, SPILL_ENTRIES_MAX)).is_last
    for crowd, its_row in ((few_entries, oldest_row(few_entries, SPILL_ENTRIES_MAX)), (head, row)):
        step = next_forget(crowd, its_row)
        applied(crowd, step.condition, step.actions)
    applied(head, *eviction(head, sorted(head.producers)[:SPILL_SETTLED_MAX]))
