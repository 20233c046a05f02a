"""Changes of one window that meet in one process: what waits for a write under way is one write after it.

A gateway serves many members of a group. Each for itself, they would refuse each other's conditional writes of the one
item. In turns they never meet, and the longer a write takes, the more of them share the next one. Functions serve one
request at a time, and meet at the item alone.

    one at a time   the first of those who wait decides for all of them, in the order in which they came
    one outcome     what is unknown or refused is so for all that were written together
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from odradek.engine.share.items import ShareItem
from odradek.engine.share.window import SharePartition
from odradek.errors import KafkaError
from odradek.ports.table import Key

A = TypeVar("A")
Decide = Callable[[SharePartition], tuple[SharePartition, A]]
"""The state after, and what to answer; the same state where there is nothing to write."""
Change = Callable[[Key, ShareItem, Decide[Any]], Awaitable[tuple[ShareItem, Any]]]

_TOGETHER_MAX = 100
_LINES_KEPT = 1_000


@dataclass(eq=False)
class _Asked:
    """One change that waits for its write, and what came of it."""

    item: ShareItem
    decide: Decide[Any]
    outcome: tuple[ShareItem, Any] | None = None
    error: Exception | None = None


@dataclass
class _Line:
    """The changes of one window."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: list[_Asked] = field(default_factory=list)
    callers: int = 0
    written: ShareItem | None = None  # the window as it was written or read last


class MergedChanges:
    """Makes changes of windows, those of the same window one after the other.

    Args:
        change: makes one change.
        unknown: the error where a caller was cancelled that wrote for others.
    """

    def __init__(self, change: Change, unknown: Callable[[], KafkaError]) -> None:
        self._change = change
        self._unknown = unknown
        self._lines: OrderedDict[tuple[Key, bytes], _Line] = OrderedDict()  # by key and incarnation

    async def change(self, key: Key, item: ShareItem, decide: Decide[A]) -> tuple[ShareItem, A]:
        """Decide and write, with what others of this process want. Raises what `change` raises."""
        place = key, item.incarnation
        line = self._lines.setdefault(place, _Line())
        self._lines.move_to_end(place)
        asked = _Asked(item, decide)
        line.waiting.append(asked)
        line.callers += 1
        try:
            async with line.lock:
                if asked in line.waiting:  # nobody has written it
                    await self._write(key, line)
        finally:
            if asked in line.waiting:
                line.waiting.remove(asked)
            line.callers -= 1
            self._forget_idle()
        if asked.error is not None:
            raise asked.error
        assert asked.outcome is not None
        return asked.outcome

    def _forget_idle(self) -> None:
        """Keep what was written last of some windows: a change that begins there is not refused."""
        for place in list(self._lines)[: len(self._lines) - _LINES_KEPT]:
            if not self._lines[place].callers:
                del self._lines[place]

    async def _write(self, key: Key, line: _Line) -> None:
        """Write what waits, and tell the outcome."""
        together, line.waiting = line.waiting[:_TOGETHER_MAX], line.waiting[_TOGETHER_MAX:]
        known = [asked.item for asked in together] + ([] if line.written is None else [line.written])
        newest = max(known, key=lambda item: item.version)
        try:
            line.written, answers = await self._change(key, newest, _all_of([asked.decide for asked in together]))
        except asyncio.CancelledError:
            for asked in together:
                asked.error = self._unknown()
            raise
        except Exception as error:
            for asked in together:
                asked.error = error
        else:
            for asked, answer in zip(together, answers, strict=True):
                asked.outcome = line.written, answer


def _all_of(decisions: Sequence[Decide[Any]]) -> Decide[list[Any]]:
    def decide(state: SharePartition) -> tuple[SharePartition, list[Any]]:
        answers = []
        for each in decisions:
            state, answer = each(state)
            answers.append(answer)
        return state, answers

    return decide
