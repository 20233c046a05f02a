"""Windows of share groups, at every write: what may become of a record, and who may do it.

* the start never goes back, and the window is no larger than it may be
* a record that is done stays done; one that is done had been delivered, or is below the log's start; or compaction took
  it: those are noted, for the end of the run to see
* a lock that is not over by the writer's own clock is not taken from its holder: only the holder ends it, or retention
* a delivery count rises by one with each delivery, and falls only where the holder says that nobody saw the record
* a window is made for a topic that is there, and stays as long as it, and its group

A worker's member ids begin with the name of its process, so that a write tells whose it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Protocol
from uuid import UUID

from odradek.engine.share.items import decode_share, share_partition
from odradek.engine.share.window import RecordState, Run, SharePartition
from odradek.model.topic_partition import PartitionId
from odradek.ports.clock import Clock
from odradek.ports.table import Item, Key


class Partitions(Protocol):
    """The state of logs."""

    def log_start(self, partition: PartitionId) -> int: ...

    def is_live(self, topic_id: UUID) -> bool: ...

    def was_compacted(self, topic_id: UUID) -> bool: ...


class ShareBook:
    """Attributes:
    windows: as they stand, by key.
    deliveries: by key, (offset, delivery count) and the member that it was written for.
    undelivered: by key, offsets of compacted topics, at or above the log's start, done before anybody had them.
    incarnations: of the windows as they stand, by key.
    may_be_deleted: somebody deletes the group when it has no members.
    begun_anew: keys of windows that went with their group.
    """

    def __init__(self, problem: Callable[[str], None], clock: Clock, partitions: Partitions) -> None:
        self._problem = problem
        self._clock = clock
        self._partitions = partitions
        self.skews_ms: dict[str, int] = {}  # of processes, by name
        self.jumped: set[str] = set()  # processes whose clock has jumped: nobody can say when their locks end
        self.window_max = 0  # 0: not told
        self.deliveries_max = 0  # of a record; 0: not told
        self.unseen: set[tuple[str, PartitionId, int]] = set()  # (member, partition, offset): given back like that
        self.windows: dict[Key, SharePartition] = {}
        self.incarnations: dict[Key, bytes] = {}
        self.may_be_deleted = False
        self.begun_anew: set[Key] = set()
        self.undelivered: dict[Key, set[int]] = defaultdict(set)
        self.deliveries: dict[Key, dict[tuple[int, int], list[str]]] = defaultdict(lambda: defaultdict(list))

    def stored(self, key: Key, old: Item | None, new: Item | None, caller: str) -> None:
        """A window was written (new None: deleted)."""
        partition = share_partition(key.sk)
        is_live = self._partitions.is_live(partition.topic_id)
        if new is None:
            self.windows.pop(key, None)
            self.incarnations.pop(key, None)
            if is_live:
                self.begun_anew.add(key)
            if is_live and not self.may_be_deleted:
                self._problem(f"{key.sk} was deleted, and its topic was not")
            return
        if old is None and not is_live:
            self._problem(f"{key.sk} was made for a topic that has been deleted")
        item = decode_share(new)
        after = item.state
        self.incarnations[key] = item.incarnation
        before = SharePartition(after.start_offset) if old is None else decode_share(old).state
        self.windows[key] = after
        if after.start_offset < before.start_offset:
            self._problem(f"the start of {key.sk} goes back from {before.start_offset} to {after.start_offset}")
        if self.window_max and after.end_offset - after.start_offset > self.window_max:
            self._problem(f"{key.sk} has {after.end_offset - after.start_offset} records in flight")
        now_ms = self._clock.now_ms() + self.skews_ms.get(caller, 0)
        had, has = _by_offset(before), _by_offset(after)
        log_start = self._partitions.log_start(partition)
        for offset in range(before.start_offset, max(before.end_offset, after.end_offset)):
            if offset >= log_start or offset >= after.start_offset:
                self._moved(key, offset, had.get(offset), has.get(offset), after.start_offset, now_ms, caller)

    def _moved(
        self, key: Key, offset: int, was: Run | None, now: Run | None, start: int, now_ms: int, caller: str
    ) -> None:
        offset_text = f"offset {offset} of {key.sk}"
        is_done = offset < start or (now is not None and now.state is RecordState.DONE)
        if was is not None and was.state is RecordState.DONE and not is_done:
            self._problem(f"{offset_text} was done and is {now.state.name if now else 'open'} again")
        never_out = was is None or was.state is RecordState.AVAILABLE
        if is_done and never_out and not (was is not None and was.delivery_count):
            self.undelivered[key].add(offset)
            if not self._partitions.was_compacted(share_partition(key.sk).topic_id):
                self._problem(f"{offset_text} is done and had not been delivered")
        if was is not None and was.state is RecordState.ACQUIRED and was != now and was.lock_until_ms > now_ms:
            is_held_still = (
                now is not None
                and now.state is RecordState.ACQUIRED
                and (now.member_id, now.lock_until_ms) == (was.member_id, was.lock_until_ms)
            )
            holder = was.member_id.split("/")[0]
            if not is_held_still and holder != caller and self.jumped.isdisjoint((holder, caller)):
                self._problem(f"{offset_text} was taken from {was.member_id} before its lock was over")
        if was is not None and was.state is RecordState.ACQUIRED and not is_done:
            left = 0 if now is None else now.delivery_count
            if left < was.delivery_count:
                if (was.member_id, share_partition(key.sk), offset) not in self.unseen:
                    self._problem(f"{offset_text} was given back by {was.member_id}, and the delivery does not count")
                elif left != was.delivery_count - 1:
                    self._problem(f"{offset_text} was delivered {was.delivery_count} times, and counts {left}")
        if now is not None and now.state is RecordState.ACQUIRED:
            count = was.delivery_count if was is not None else 0
            is_new = was is None or was.state is not RecordState.ACQUIRED or now.delivery_count != count
            if is_new:
                self.deliveries[key][offset, now.delivery_count].append(now.member_id)
                if 0 < self.deliveries_max < now.delivery_count:
                    self._problem(f"{offset_text} is delivered the {now.delivery_count}th time")
                if now.delivery_count != count + 1:
                    self._problem(f"{offset_text} is delivered the {now.delivery_count}th time after the {count}th")


def _by_offset(state: SharePartition) -> dict[int, Run]:
    return {offset: run for run in state.runs for offset in range(run.start, run.end)}
