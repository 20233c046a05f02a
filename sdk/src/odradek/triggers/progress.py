"""Decisions after a call: which records are next, retried, split or given up. Pure.

A partition's records go to lanes by key (one lane without a parallelization factor). Each lane has its own batch under
way and its own failures; the committed offset is that of the first record that is not done in any lane. What lanes have
done beyond it is kept with the offset, so a retry in one lane repeats nothing in the others.

    success            done up to the batch's end
    partial            done up to the first record that failed; it and the rest come again
    failure, bisect    the next batch is half as long, until the batch's end is done; not counted as an attempt
    failure            one attempt more, after a pause
    refusal            the function has not run: no attempt, after a pause
    too many, too old  the batch is given up: it goes to the destination, and is done

The progress is stored in the lease as `q` (triggers/leases.py), and holds for the committed offset it was stored with:
whoever sets the offset by other means starts afresh.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from odradek.model.record import Record
from odradek.model.trigger import Trigger

_ERROR_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class Lane:
    """The records of some keys of a partition.

    Attributes:
        done: all its records below this offset are done.
        attempts: failed calls with the batch at its front.
        limit: records of its next batches while one that failed is being split; 0: as many as the trigger allows.
        split_end: where the batch that is being split ends.
        retry_ms: not called before; 0: now.
        refusals: calls in a row that did not come about; they are no attempts, and the pauses grow with them.
    """

    done: int = 0
    attempts: int = 0
    limit: int = 0
    split_end: int = 0
    retry_ms: int = 0
    refusals: int = 0

    def reached(self, offset: int) -> Lane:
        """The lane when its records below the offset are done."""
        is_split = self.limit > 0 and offset < self.split_end
        return Lane(offset, limit=self.limit if is_split else 0, split_end=self.split_end if is_split else 0)


@dataclass(frozen=True, slots=True)
class Window:
    """An open tumbling window, and the state that its calls hand on, as JSON."""

    start_ms: int
    end_ms: int
    state: str = "{}"


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a partition beside its committed offset.

    Attributes:
        lanes: those with something to remember.
        due_ms: when records need not wait for a full batch any more; 0: none wait.
        window: of a trigger with tumbling windows, while one is open.
        invocations, failures, passed, given_up: calls; those that failed; records that filters passed over, or that
            were given up.
        error, error_ms, called_ms: the last failure, its time, and the time of the last call.
        age_ms: how old the last record of that call was (Lambda's IteratorAge).
    """

    lanes: Mapping[int, Lane] = field(default_factory=dict)
    due_ms: int = 0
    window: Window | None = None
    invocations: int = 0
    failures: int = 0
    passed: int = 0
    given_up: int = 0
    error: str = ""
    error_ms: int = 0
    called_ms: int = 0
    age_ms: int = 0

    def lane(self, number: int, committed: int) -> Lane:
        """A lane, done at least up to the committed offset."""
        lane = self.lanes.get(number, Lane())
        return lane if lane.done >= committed else replace(lane, done=committed)

    def with_lane(self, number: int, lane: Lane) -> Progress:
        return replace(self, lanes={**self.lanes, number: lane})

    def failed(self, error: str, now_ms: int) -> Progress:
        return replace(self, failures=self.failures + 1, error=error[:_ERROR_CHARACTERS], error_ms=now_ms)

    @property
    def later_ms(self) -> int:
        """When something is to be done without a new record; 0: nothing is."""
        times = [lane.retry_ms for lane in self.lanes.values() if lane.retry_ms]
        times += [self.due_ms] if self.due_ms else []
        times += [self.window.end_ms] if self.window is not None else []
        return min(times, default=0)


class Kind(Enum):
    """The next action for a batch."""

    CALL = "call"
    EXPIRED = "expired"  # older than the trigger's records may be: given up without a call


@dataclass(frozen=True, slots=True)
class LaneBatch:
    """The next records of a lane."""

    lane: int
    records: Sequence[Record]
    kind: Kind = Kind.CALL


@dataclass(frozen=True, slots=True)
class Wave:
    """The batches that can go now.

    Attributes:
        retry_ms: when a lane that cannot go now may go; 0: none waits.
    """

    batches: Sequence[LaneBatch]
    retry_ms: int = 0


def lane_of(record: Record, factor: int) -> int:
    """The lane of a record: that of its key. Records without a key have no order to keep."""
    if factor == 1:
        return 0
    return (record.offset if record.key is None else zlib.crc32(record.key)) % factor


def plan_wave(trigger: Trigger, records: Sequence[Record], progress: Progress, committed: int, now_ms: int) -> Wave:
    """Choose the next batch of each lane.

    Args:
        records: those from the committed offset on that the filters let through.
    """
    lanes: dict[int, list[Record]] = {}
    for record in records:
        lanes.setdefault(lane_of(record, trigger.parallelization_factor), []).append(record)
    batches, waits = [], []
    for number, waiting in sorted(lanes.items()):
        lane = progress.lane(number, committed)
        left = [record for record in waiting if record.offset >= lane.done]
        if not left:
            continue
        if lane.retry_ms > now_ms:
            waits.append(lane.retry_ms)
            continue
        expired = 0
        while expired < len(left) and trigger.is_too_old(left[expired].timestamp_ms, now_ms):
            expired += 1
        if expired:
            batches.append(LaneBatch(number, left[: min(expired, trigger.batch_size)], Kind.EXPIRED))
        else:
            size = min(trigger.batch_size, lane.limit or trigger.batch_size)
            if lane.limit:
                left = [record for record in left if record.offset < lane.split_end] or left
            batches.append(LaneBatch(number, left[:size]))
    return Wave(batches, min(waits, default=0))


def after_success(lane: Lane, batch: LaneBatch) -> Lane:
    """The lane when its batch is done, or was given up."""
    return lane.reached(batch.records[-1].offset + 1)


def after_failure(
    trigger: Trigger, lane: Lane, batch: LaneBatch, first_failed: int, retry_ms: int
) -> tuple[Lane, Sequence[Record]]:
    """The lane after a call that failed, and the records that are given up.

    Args:
        first_failed: the position of the first record that failed; 0: all of them.
        retry_ms: when it may be tried again.
    """
    left = batch.records[first_failed:]
    if first_failed:
        lane = lane.reached(left[0].offset)
    if trigger.bisect and len(left) > 1:
        if first_failed:
            return lane, ()  # what failed is now the first record: if it fails again, it is split off
        end = max(lane.split_end, left[-1].offset + 1) if lane.limit else left[-1].offset + 1
        return replace(lane, limit=(len(left) + 1) // 2, split_end=end, retry_ms=0, refusals=0), ()
    attempts = lane.attempts + 1
    if trigger.attempts_max is not None and attempts >= trigger.attempts_max:
        return lane, left
    return replace(lane, attempts=attempts, retry_ms=retry_ms, refusals=0), ()


def after_refusal(lane: Lane, retry_ms: int) -> Lane:
    """The lane after a call that did not come about, or a destination that did not take what was given up."""
    return replace(lane, refusals=lane.refusals + 1, retry_ms=retry_ms)


def committed_after(
    trigger: Trigger, records: Sequence[Record], end: int, progress: Progress, committed: int
) -> tuple[int, Progress]:
    """The new committed offset, and the progress without what it makes superfluous.

    Args:
        records: as for `plan_wave`.
        end: the offset after everything that was read; between the records there may be holes.
    """
    undone = [
        record.offset
        for record in records
        if record.offset >= progress.lane(lane_of(record, trigger.parallelization_factor), committed).done
    ]
    offset = min(undone, default=end)
    lanes = {
        number: lane
        for number, lane in progress.lanes.items()
        if lane.done > offset or lane.attempts or lane.limit or lane.retry_ms or lane.refusals
    }
    return offset, replace(progress, lanes=lanes)


# --- at rest --------------------------------------------------------------------------------------------------------


def encode_progress(progress: Progress, committed: int) -> str:
    """Encode for the lease, as JSON; `f` is the offset that it was stored with."""
    document: dict[str, Any] = {"f": committed}
    if progress.lanes:
        document["l"] = {
            str(number): [lane.done, lane.attempts, lane.limit, lane.split_end, lane.retry_ms]
            + ([lane.refusals] if lane.refusals else [])
            for number, lane in progress.lanes.items()
        }
    if progress.window is not None:
        document["w"] = [progress.window.start_ms, progress.window.end_ms, progress.window.state]
    for name, attribute in _NAMES.items():
        if value := getattr(progress, attribute):
            document[name] = value
    return json.dumps(document, separators=(",", ":"))


_NAMES = {
    "d": "due_ms",
    "i": "invocations",
    "n": "failures",
    "p": "passed",
    "g": "given_up",
    "e": "error",
    "t": "error_ms",
    "c": "called_ms",
    "a": "age_ms",
}


def decode_progress(text: str, committed: int) -> Progress:
    """Decode; where the offset was set by other means, only what was counted holds. Raises ValueError."""
    document = json.loads(text)
    counted = Progress(**{attribute: document[name] for name, attribute in _NAMES.items() if name in document})
    if document.get("f") != committed:
        return replace(counted, due_ms=0)
    lanes = {int(number): Lane(*values) for number, values in document.get("l", {}).items()}
    window = Window(*document["w"]) if "w" in document else None
    return replace(counted, lanes=lanes, window=window)
