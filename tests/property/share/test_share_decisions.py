"""Windows of share groups against a model that keeps every record by itself.

The model says for each offset what it is; the decisions keep runs. After each step both agree, the runs keep their
invariants, and a stored window reads back as it was written.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.engine.share.items import ShareItem, decode_share, encode_share
from odradek.engine.share.window import (
    LOT_RECORDS_MAX,
    RecordState,
    Refusal,
    Run,
    SharePartition,
    Stretch,
    acknowledge,
    acquire,
    lot_written,
    next_stretch,
    release_all,
    settle,
)
from odradek.errors import FormatError
from odradek.model.share import UNSEEN, AcknowledgementBatch, AcknowledgeType, SharePolicy

from tests.support.examples import examples

MEMBERS = ("a", "b", "c")
LOCK_MS = 10
LOG_END = 40
STEPS = ("acquire", "acquire", "acknowledge", "time", "close", "unseen", "letters", "retention")
GAPS = frozenset({5, 6, 17, 29})  # offsets that compaction left no record at, whole batches of them
BATCHES = [Stretch(0, 3), Stretch(3, 5), Stretch(7, 12), Stretch(12, 17), Stretch(18, 29), Stretch(30, 40)]


@dataclass
class Model:
    """Each offset by itself. A record that is not in any of the maps has never been delivered."""

    limit: int
    holder: dict[int, tuple[str, int]] = field(default_factory=dict)  # offset: (member, lock end)
    count: dict[int, int] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)  # accepted, or given up
    accepted: set[int] = field(default_factory=set)
    dead: set[int] = field(default_factory=set)
    log_start: int = 0

    def give_up(self, offset: int, *, rejected: bool = False) -> None:
        self.holder.pop(offset)
        if rejected or self.count[offset] >= self.limit:
            self.done.add(offset)
            self.dead.add(offset)

    def pass_time(self, now_ms: int) -> None:
        for offset, (_, until_ms) in list(self.holder.items()):
            if until_ms <= now_ms:
                self.give_up(offset)


def states_of(state: SharePartition) -> dict[int, Run]:
    return {offset: run for run in state.runs for offset in range(run.start, run.end)}


def check(state: SharePartition, model: Model, policy: SharePolicy, letters: set[int]) -> None:
    at = state.start_offset
    for before, run in zip((None, *state.runs), state.runs, strict=False):
        assert run.start == at < run.end
        at = run.end
        assert before is None or not before.is_like(run)
    if state.runs:
        assert state.runs[0].state is not RecordState.DONE
        assert state.runs[-1].state is not RecordState.AVAILABLE or state.runs[-1].delivery_count
    assert state.end_offset - state.start_offset <= policy.max_record_locks
    assert sum(run.end - run.start for run in state.lot) <= LOT_RECORDS_MAX
    states = states_of(state)
    for offset in range(max(model.log_start, 0), LOG_END):
        if offset in GAPS:
            continue
        run = states.get(offset)
        if offset in model.holder:
            assert run is not None
            assert run.state is RecordState.ACQUIRED
            assert (run.member_id, run.lock_until_ms) == model.holder[offset]
            assert run.delivery_count == model.count[offset]
        elif offset in model.dead and policy.has_dead_letters and offset not in letters:
            assert run is not None
            assert run.state in (RecordState.DYING, RecordState.LOT)
        elif offset in model.done:
            assert offset < state.start_offset or (run is not None and run.state is RecordState.DONE)
        elif model.count.get(offset):
            assert run is not None
            assert run.state is RecordState.AVAILABLE
            assert run.delivery_count == model.count[offset]
        else:
            assert run is None or run.state is RecordState.AVAILABLE
            assert offset >= state.start_offset
    item = ShareItem(state, b"12345678", 3, (b"abcdefgh",))
    assert decode_share(encode_share(item)) == item


@settings(max_examples=examples(150))
@given(data=st.data(), has_dead_letters=st.booleans(), limit=st.integers(1, 3), window=st.integers(4, 30))
def test_runs_agree_with_a_model_of_single_records(
    data: st.DataObject, has_dead_letters: bool, limit: int, window: int
) -> None:
    policy = SharePolicy(LOCK_MS, limit, window, has_dead_letters)
    model, state, now_ms, letters = Model(limit), SharePartition(0), 1_000, set[int]()
    for _ in range(data.draw(st.integers(1, 25))):
        step = data.draw(st.sampled_from(STEPS))
        member = data.draw(st.sampled_from(MEMBERS))
        state = settle(state, now_ms, model.log_start, policy)
        model.pass_time(now_ms)
        if step == "acquire":
            state = _acquire(data, state, model, policy, member, now_ms)
        elif step == "acknowledge":
            state = _acknowledge(data, state, model, policy, member, now_ms)
        elif step == "time":
            now_ms += data.draw(st.integers(1, 12))
            state = settle(state, now_ms, model.log_start, policy)
            model.pass_time(now_ms)
        elif step == "close":
            state = release_all(state, member, policy)
            for offset in [offset for offset, (holder, _) in model.holder.items() if holder == member]:
                model.give_up(offset)
        elif step == "unseen":
            first = data.draw(st.integers(0, LOG_END - 1))
            last = data.draw(st.integers(first, LOG_END - 1))
            after = acknowledge(state, member, now_ms, policy, [AcknowledgementBatch(first, last, (UNSEEN,))])
            assert not isinstance(after, Refusal)
            state = after
            for offset in [offset for offset, (holder, _) in model.holder.items() if holder == member]:
                if first <= offset <= last:
                    del model.holder[offset]
                    model.count[offset] -= 1
        elif step == "letters" and state.lot:
            lot = {offset for run in state.lot for offset in range(run.start, run.end)}
            assert lot <= model.dead
            assert not lot & letters
            number = state.lot_number
            state = lot_written(state, number)
            assert state.lot_number == number + 1
            assert lot_written(state, number) == state  # a second writer changes nothing
            letters |= lot
        elif step == "retention":
            model.log_start = min(model.log_start + data.draw(st.integers(0, 3)), LOG_END)
            for offset in [offset for offset in model.holder if offset < model.log_start]:
                del model.holder[offset]
            state = settle(state, now_ms, model.log_start, policy)
        check(state, model, policy, letters)


def _acquire(
    data: st.DataObject, state: SharePartition, model: Model, policy: SharePolicy, member: str, now_ms: int
) -> SharePartition:
    count, is_strict = data.draw(st.integers(1, 12)), data.draw(st.booleans())
    stretch = next_stretch(state, policy, count)
    states = states_of(state)
    window = range(state.start_offset, max(state.end_offset, state.start_offset + policy.max_record_locks))
    free = [offset for offset in window if offset not in states or states[offset].state is RecordState.AVAILABLE]
    assert (stretch is None) == (not free)
    if stretch is None:
        return state
    assert sum(stretch.start <= offset < stretch.end for offset in free) == min(count, len(free))
    read_from = stretch.start
    batches = [batch for batch in BATCHES if batch.end > max(read_from, model.log_start)]
    batches = batches[: data.draw(st.integers(0, 4))]
    held = sum(holder == member for holder, _ in model.holder.values())
    held_max = data.draw(st.integers(1, policy.max_record_locks))
    after, acquired = acquire(
        state,
        member,
        now_ms,
        policy,
        read_from,
        batches,
        max_records=count,
        max_held=held_max,
        is_strict=is_strict,
    )
    delivered = [
        (offset, batch.delivery_count)
        for batch in acquired
        for offset in range(batch.first_offset, batch.last_offset + 1)
    ]
    assert not is_strict or len(delivered) <= count
    assert delivered == sorted(delivered)
    assert len(delivered) <= max(0, held_max - held)
    if held < held_max and batches and any(batch.start <= read_from < batch.end for batch in batches):
        assert delivered
        assert delivered[0][0] == read_from
    for offset, delivery in delivered:
        assert offset not in model.holder
        assert offset not in model.done
        assert offset not in GAPS
        model.holder[offset] = (member, now_ms + policy.lock_ms)
        model.count[offset] = model.count.get(offset, 0) + 1
        assert delivery == model.count[offset]
    return after


def _acknowledge(
    data: st.DataObject, state: SharePartition, model: Model, policy: SharePolicy, member: str, now_ms: int
) -> SharePartition:
    held = sorted(offset for offset, (holder, _) in model.holder.items() if holder == member)
    first = data.draw(st.sampled_from(held)) if held else data.draw(st.integers(0, LOG_END))
    last = first
    longest = data.draw(st.integers(0, 6))
    while last + 1 in held and last - first < longest:
        last += 1
    if data.draw(st.integers(0, 9)) == 0:
        last += 1  # perhaps nobody's, or another's
    kinds = [int(data.draw(st.sampled_from(list(AcknowledgeType)))) for _ in range(last - first + 1)]
    if len(set(kinds)) == 1 and data.draw(st.booleans()):
        kinds = kinds[:1]
    after = acknowledge(state, member, now_ms, policy, [AcknowledgementBatch(first, last, tuple(kinds))])
    if not set(range(first, last + 1)) <= set(held):
        assert isinstance(after, Refusal)
        return state
    assert not isinstance(after, Refusal)
    for i, offset in enumerate(range(first, last + 1)):
        match kinds[i if len(kinds) > 1 else 0]:
            case AcknowledgeType.RELEASE:
                model.give_up(offset)
            case AcknowledgeType.REJECT:
                model.give_up(offset, rejected=True)
            case AcknowledgeType.RENEW:
                model.holder[offset] = (member, now_ms + policy.lock_ms)
            case _:
                assert offset not in model.accepted
                model.accepted.add(offset)
                model.done.add(offset)
                del model.holder[offset]
    return after


@settings(max_examples=examples(150))
@given(data=st.binary(max_size=40), start=st.integers(0, 2**62))
def test_any_bytes_are_runs_or_a_format_error(data: bytes, start: int) -> None:
    item = encode_share(ShareItem(SharePartition(start), b"12345678", 1))
    try:
        decode_share({**item, "r": data, "m": ["a"]})
    except FormatError:
        pass
