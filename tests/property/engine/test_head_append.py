"""An append as a decision on the head does what its expressions say: for any head, damaged ones included."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from odradek.adapters.expressions import State, after, after_live, copied, state_of
from odradek.engine.append.decisions import KnownRows, Try, decide_sequences
from odradek.engine.partition.claims import FLEET_CLAIM, Claim
from odradek.engine.partition.head import PartitionHead, ProducerState, encode_head, head_key
from odradek.engine.partition.head_append import HeadAppend, PartitionAppend
from odradek.engine.partition.producer_places import places_of
from odradek.engine.partition.shared_head import SharedHead, encode_shared_head, id_name_of, stamp_of
from odradek.errors import ConditionFailed, OdradekError
from odradek.format.item_size import item_size
from odradek.format.tail_entry import TailEntry, encode_tail_entry
from odradek.model.topic_partition import PartitionId, new_topic_id
from odradek.ports.table import Item

OWN = PartitionId(UUID(int=2**128 - 1), 0)
PLACES = 3
SHARED = [PartitionId(new_topic_id(bytes(16), PLACES), number) for number in range(PLACES)]
COMMIT_MS = 1_700_000_000_000
OBJECT_ID = bytes(range(16))

few = st.integers(0, 2)
claims = st.one_of(st.just(FLEET_CLAIM), st.builds(Claim, few, few), st.just(Claim(0, None)))
offsets = st.integers(0, 3) | st.just(2**53)
producer_ids = st.integers(-1, 2)
floors_ms = st.sampled_from([0, COMMIT_MS - 1, COMMIT_MS, COMMIT_MS + 1])
object_floors = st.sampled_from([bytes(16), OBJECT_ID, b"\xff" * 16])


@st.composite
def entries(draw: st.DrawFn, producer_id: int) -> TailEntry:
    """A batch at a position of the object; equal ones are drawn often."""
    sequence, epoch = (draw(few), draw(few)) if producer_id >= 0 else (-1, -1)
    position = draw(st.integers(0, 1))
    count = draw(st.integers(1, 2))
    return TailEntry(OBJECT_ID, position * 100, 100, count, COMMIT_MS, producer_id, epoch, sequence, COMMIT_MS)


@st.composite
def own_heads(draw: st.DrawFn) -> Item:
    tail = draw(st.lists(producer_ids.flatmap(entries), max_size=3))
    head = PartitionHead(
        next_offset=draw(offsets) + sum(entry.offset_count for entry in tail),
        tail=tuple(encode_tail_entry(entry) for entry in tail),
        spill_floor_ms=draw(floors_ms),
        sweep_floor=draw(object_floors),
        leader_id=draw(few),
        leader_epoch=draw(few),
        appended_bytes=draw(offsets),
        producers=draw(st.dictionaries(few, st.builds(ProducerState, few, few))),
        evictions=draw(few),
        mark=draw(st.none() | few),
        fence=draw(few),
    )
    return encode_head(head)


@st.composite
def shared_heads(draw: st.DrawFn) -> Item:
    numbers = st.dictionaries(st.sampled_from("012"), offsets)
    stamps = st.dictionaries(st.sampled_from("012"), st.builds(stamp_of, few, few))
    head = SharedHead(
        next_offsets=draw(numbers),
        spill_floor_ms=draw(floors_ms),
        sweep_floor=draw(object_floors),
        leader_id=draw(few),
        leader_epoch=draw(few),
        appended_bytes=draw(offsets),
        stamps={id_name_of(number): draw(stamps) for number in draw(st.sets(few))},
        paged=draw(few),
        evictions=draw(few),
        mark=draw(st.none() | few),
        fence=draw(few),
    )
    return encode_shared_head(head)


@st.composite
def appends(draw: st.DrawFn, partitions: list[PartitionId]) -> HeadAppend:
    """An append as `ConditionalAppend` makes it before it has seen the head: the clauses may or may not hold."""
    parts = []
    for partition in draw(st.lists(st.sampled_from(partitions), min_size=1, unique=True)):
        batches = draw(st.lists(entries(draw(producer_ids)), min_size=1, max_size=2))
        there = draw(st.sets(few))
        verdict = decide_sequences(batches, None, KnownRows(), places=places_of(partition), there=there)
        clauses = verdict.clauses if isinstance(verdict, Try) else ()
        parts.append(
            PartitionAppend(partition, batches, clauses, draw(st.none() | offsets), draw(st.none() | st.integers(1, 2)))
        )
    return HeadAppend(partitions[0].head_id, parts, draw(claims), is_unmarked=draw(st.booleans()))


def outcome(append: HeadAppend, old: State, apply: Any) -> State | tuple[type[OdradekError], Any]:
    """The state after it, or what was raised, with the item that it shows."""
    before = copied(old.item)
    try:
        result: State | tuple[type[OdradekError], Any] = apply(append, old)
    except OdradekError as error:
        result = type(error), getattr(error, "current", None)
    assert old.item == before, "the stored item is left as it is"
    return result


def check(append: HeadAppend, item: Item | None) -> None:
    old = State(None, 0) if item is None else state_of(append.key, item)
    state = outcome(append, old, after_live)
    assert state == outcome(append, old, after)
    if isinstance(state, State) and state.item is not None:
        assert state.size_bytes == item_size(*append.key, dict(state.item))


def fitting(append: HeadAppend, item: Item, left: set[str]) -> Item:
    """The head with what the append asks for, but for a few attributes that are left as they are."""
    claim = append._claim
    fit: Item = {
        "sf": COMMIT_MS - 1,
        "wf": OBJECT_ID,
        "t": [],
        "li": claim.leader_id,
        "le": item["le"] if claim.leader_epoch is None else claim.leader_epoch,
        "pv": 0,
    }
    producers: dict[str, Any] = {}
    for part in append._parts:
        for entry in reversed(part.entries):
            if entry.producer_id >= 0 and append._shares_head:
                stamps = producers.setdefault(id_name_of(entry.producer_id), {})
                stamps[str(part.partition.place)] = stamp_of(entry.producer_epoch, entry.base_sequence)
            elif entry.base_sequence > 0:
                producers[str(entry.producer_id)] = {"e": entry.producer_epoch, "s": entry.base_sequence}
        if part.expected_offset is not None and append._shares_head:
            fit["n"] = {**item["n"], **fit.get("n", {}), str(part.partition.place): part.expected_offset}  # type: ignore[dict-item]
        elif part.expected_offset is not None:
            fit["no"] = part.expected_offset
    fit["p"] = producers
    fitted = {**item, **{name: value for name, value in fit.items() if name not in left}}
    for name in ("w", "g"):
        if name not in left:
            fitted.pop(name, None)
    return fitted


names = st.sets(st.sampled_from(["sf", "wf", "t", "li", "le", "pv", "p", "n", "no", "w", "g"]), max_size=2)


@given(own_heads(), appends([OWN]), names)
def test_appends_to_a_head_of_one_partition(item: Item, append: HeadAppend, left: set[str]) -> None:
    check(append, item)
    check(append, fitting(append, item, left))


@given(shared_heads(), appends(SHARED), names)
def test_appends_to_a_shared_head(item: Item, append: HeadAppend, left: set[str]) -> None:
    check(append, item)
    check(append, fitting(append, item, left))


def test_each_condition_refuses_by_itself() -> None:
    entry = TailEntry(OBJECT_ID, 0, 100, 2, COMMIT_MS, 7, 1, 3, COMMIT_MS)
    verdict = decide_sequences([entry], None, KnownRows(), places=places_of(OWN))
    assert isinstance(verdict, Try)
    append = HeadAppend(OWN, [PartitionAppend(OWN, [entry], verdict.clauses, 4, 2)], Claim(2, 5), is_unmarked=True)
    fits = encode_head(
        PartitionHead(4, sweep_floor=OBJECT_ID, spill_floor_ms=COMMIT_MS - 1, leader_id=2, leader_epoch=5, fence=2)
    ) | {"p": {"7": {"e": 1, "s": 3}}}
    check(append, fits)
    after_it = append.decide(fits)
    assert after_it is not None
    assert (after_it["no"], after_it["by"], after_it["p"]) == (6, 100, {"7": {"e": 1, "s": 5}})
    refusing: list[tuple[str, Any]] = [
        ("v", 2),
        ("li", 0),
        ("le", 6),
        ("wf", OBJECT_ID + bytes(1)),
        ("sf", COMMIT_MS),
        ("t", [encode_tail_entry(entry)]),
        ("no", 5),
        ("p", {}),
        ("p", {"7": {"e": 1, "s": 5}}),
        ("p", {"7": {"e": 2, "s": 3}}),
        ("g", 3),
        ("w", 0),
    ]
    for name, value in refusing:
        head: Item = {**fits, name: value}
        check(append, head)
        assert append.decide(head) is None, name


@given(st.data())
def test_damaged_heads_of_any_kind(data: st.DataObject) -> None:
    shares = data.draw(st.booleans())
    item = dict(data.draw(shared_heads() if shares else own_heads()))
    name = data.draw(st.sampled_from(sorted(item)))
    damaged = data.draw(st.none() | st.sampled_from([0, -1, 10**38 - 1, "text", b"", True, [], {}, [1], {"0": "x"}]))
    if damaged is None:
        del item[name]
    else:
        item[name] = damaged
    append = data.draw(appends(SHARED if shares else [OWN]))
    check(append, item)
    if {"n", "le"} <= item.keys() | {"n"} and type(item.get("n", {})) is dict:
        check(append, fitting(append, item, {name}))


@given(appends([OWN]))
def test_a_head_that_is_gone(append: HeadAppend) -> None:
    check(append, None)
    assert append.key == head_key(OWN)


@given(own_heads(), st.lists(appends([OWN]), max_size=6))
def test_appends_that_follow_each_other(item: Item, following: list[HeadAppend]) -> None:
    live = expressed = state_of(head_key(OWN), item)
    for append in following:
        for name, apply in (("live", after_live), ("expressed", after)):
            try:
                state = apply(append, live if name == "live" else expressed)
            except ConditionFailed:
                continue
            if name == "live":
                live = state
            else:
                expressed = state
        assert live == expressed
