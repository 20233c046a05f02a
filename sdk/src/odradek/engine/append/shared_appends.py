"""The appends of one produce request, those to partitions of one head together: one update instead of one a partition.

What is ready at the same moment goes together. A batch that has to wait for its producer's previous one
(append/order.py) keeps nobody back: it goes with what is ready when its turn has come.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from odradek.engine.append.conditional_append import AppendTools, ConditionalAppend, OnSettled
from odradek.engine.append.member import Member, Outcome
from odradek.limits import PAGE_BYTES_MAX, PARTITIONS_PER_HEAD_MAX
from odradek.model.topic_partition import PartitionId

_ENTRY_BYTES = 48  # of a packed entry, at most about
_ENTRIES_MAX = PAGE_BYTES_MAX // 2 // _ENTRY_BYTES

_Key = tuple[PartitionId, bool]  # the head, and whether the batches are plain
_Waiting = list[tuple[Member, "asyncio.Future[Outcome]"]]


class SharedAppends:
    """The appends of one request."""

    def __init__(self, tools: AppendTools, deadline_s: float) -> None:
        self._tools = tools
        self._deadline_s = deadline_s
        self._waiting: dict[_Key, _Waiting] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def appends(self, members: Sequence[Member], on_settled: OnSettled) -> list[Coroutine[Any, Any, None]]:
        """Return the appends of members that are all ready: those of one head together."""
        apart = [[member] for member in members if not _meets_others(member)]
        together: dict[_Key, list[Member]] = {}
        for member in members:
            if _meets_others(member):
                together.setdefault(_key(member), []).append(member)
        parts = [*apart, *(part for same in together.values() for part in _in_parts(same))]
        return [ConditionalAppend(self._tools, part, on_settled).run(self._deadline_s) for part in parts]

    async def append(self, member: Member) -> Outcome:
        """Append one partition's entries, with others that are ready. Raises nothing of the store's."""
        if not _meets_others(member):
            [outcome] = await self._run([member])
            return outcome
        key = _key(member)
        settled: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.append((member, settled))
        else:
            self._waiting[key] = [(member, settled)]
            self._tasks.append(asyncio.get_running_loop().create_task(self._append_all(key)))
        return await settled

    def close(self) -> None:
        """Stop what is under way: nobody waits for it any more."""
        for task in self._tasks:
            task.cancel()

    async def _append_all(self, key: _Key) -> None:
        """Append all that have come by now: those that were ready when the first one was."""
        waiting = self._waiting.pop(key)
        try:
            futures = dict(waiting)
            parts = _in_parts(list(futures))
            if len(parts) == 1:
                await self._append(parts[0], futures)
            else:
                await asyncio.gather(*(self._append(part, futures) for part in parts))
        except asyncio.CancelledError:
            for _, settled in waiting:
                settled.cancel()
            raise
        except BaseException as error:
            for _, settled in waiting:
                if not settled.done():
                    settled.set_exception(error)

    async def _append(self, members: Sequence[Member], futures: Mapping[Member, asyncio.Future[Outcome]]) -> None:
        def tell(member: Member, outcome: Outcome) -> None:
            if not futures[member].done():
                futures[member].set_result(outcome)

        await ConditionalAppend(self._tools, members, tell).run(self._deadline_s)

    async def _run(self, members: Sequence[Member]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        append = ConditionalAppend(self._tools, members, lambda _, outcome: outcomes.append(outcome))
        await append.run(self._deadline_s)
        return outcomes


def _meets_others(member: Member) -> bool:
    """Return True if it may share an update with other partitions of its head."""
    return member.partition.shares_head and member.expected_offset is None


def _key(member: Member) -> _Key:
    return member.partition.head_id, member.is_plain


def _in_parts(members: Sequence[Member]) -> list[list[Member]]:
    """What one update each takes: a partition once, and so much as its text and the item have room for.

    The first of each partition go together, then the second of each, and so on.
    """
    layers: defaultdict[int, list[Member]] = defaultdict(list)
    earlier: Counter[PartitionId] = Counter()
    for member in members:
        layers[earlier[member.partition]].append(member)
        earlier[member.partition] += 1
    parts: list[list[Member]] = []
    for layer in layers.values():
        parts.append([])
        entries = 0
        for member in layer:
            entries += len(member.entries)
            if parts[-1] and (len(parts[-1]) >= PARTITIONS_PER_HEAD_MAX or entries > _ENTRIES_MAX):
                parts.append([])
                entries = len(member.entries)
            parts[-1].append(member)
    return parts
