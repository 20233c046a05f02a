"""The store as one process sees it: every call has a fate.

    pause → crash? → freeze? → stall? → unavailable? / request lost? → the call (now, twice, or later)
          → answer lost? → crash? → pause

A crash ends all tasks of the process at once; what it had sent may still arrive. A freeze (of a function between two
invocations, SIGSTOP) stops all of them for a while, and what was on its way is delivered meanwhile; a stall is one
call's. A clock may jump by hours or days, and back with the next jump. A call itself is atomic: the memory adapters run
to their end without yielding. But what a transaction wrote is seen item by item (visibility.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING, Any

from odradek.adapters.expressions import copied
from odradek.errors import (
    ConditionFailed,
    OutcomeUnknown,
    StoreError,
    StoreRejected,
    StoreUnavailable,
    TransactionCanceled,
)
from odradek.ports.table import Item, Key, Operation
from odradek.ports.tables import TableOperation, Tables

from tests.simulation.books.items import partition_of_object
from tests.simulation.store.visibility import overlaid

if TYPE_CHECKING:
    from tests.simulation.world import Process

HOUR_S = 3600.0
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
_TROUBLED_CALLS = 6
_SOMETIMES = ("torn", "freeze", "jump", "twice")
WRITES = frozenset({"put", "update", "delete", "transact", "create", "commit", "expire", "drop"})


class Crash(BaseException):
    """The process dies here. Not an Exception: no handler of the program sees it."""


@dataclass(frozen=True)
class Fates:
    """How likely what is, per port call. `none()` for a calm end of a run.

    Attributes:
        crashing, stalling, lating, losing: the calls at which processes die, that stall, are late, lose their answers,
            by name ("put", or "log.put" for those of one port); empty: any.
        cluster: troubles come together: how likely a stall, a late call and a lost answer are in each of the next
            `_TROUBLED_CALLS` calls of a process that had one of them.
    """

    crash: float = 0.004
    crashing: frozenset[str] = frozenset()
    unavailable: float = 0.03
    lost_request: float = 0.02
    lost_answer: float = 0.03
    late: float = 0.01
    repeated: float = 0.01
    stall: float = 0.0015
    pause_s: float = 0.02
    stalls_s: tuple[float, ...] = (2.0, 60.0, 1.2 * HOUR_S)
    stalling: frozenset[str] = frozenset()
    lating: frozenset[str] = frozenset()
    lates_s: tuple[float, ...] = (0.05, 1.0, 30.0, 1.5 * HOUR_S)
    losing: frozenset[str] = frozenset()
    torn: float = 0.4  # of a transaction: its items become visible one by one
    freeze: float = 0.0006
    freezes_s: tuple[float, ...] = (5.0, 90.0, 1.5 * HOUR_S)
    jump: float = 0.0006
    jumps_ms: tuple[int, ...] = (-2 * DAY_MS, -3 * HOUR_MS, 3 * HOUR_MS, 2 * DAY_MS)
    twice: float = 0.01  # of a request to a function: delivered again, at once or late
    cluster: float = 0.0

    @classmethod
    def none(cls) -> Fates:
        return cls(
            crash=0,
            unavailable=0,
            lost_request=0,
            lost_answer=0,
            late=0,
            repeated=0,
            stall=0,
            torn=0,
            freeze=0,
            jump=0,
            twice=0,
        )

    @cached_property
    def troubled(self) -> Fates:
        """The fates of a process that has just met one of its own."""
        likely = {name: max(getattr(self, name), self.cluster) for name in ("stall", "late", "lost_answer")}
        return replace(self, cluster=0, **likely)  # type: ignore[arg-type]

    def drawn(self, seed: int) -> Fates:
        """Without some of those that not every run has, by the seed."""
        return replace(self, **{name: 0 for name in _SOMETIMES if Random(f"{seed} {name}").random() < 0.5})  # type: ignore[arg-type]


class SimTables:
    """The tables as a process sees them."""

    def __init__(self, process: Process, tables: Tables) -> None:
        self.log: Any = SimTable(process, tables, "log")
        self.groups: Any = SimTable(process, tables, "groups")
        self.catalog: Any = SimTable(process, tables, "catalog")
        self._across: Any = SimTable(process, tables, "tables")

    async def transact(self, operations: Sequence[TableOperation]) -> None:
        await self._across.transact(operations)


class SimPort:
    """A port as a process sees it."""

    def __init__(self, process: Process, port: Any, name: str) -> None:
        self._process = process
        self._port = port
        self._name = name

    def __getattr__(self, method_name: str) -> Any:
        method = getattr(self._port, method_name)
        if not callable(method):
            return method

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await self._call(method_name, lambda: self._perform(method_name, *args, **kwargs))

        return call

    async def _perform(self, method_name: str, *args: Any, **kwargs: Any) -> Any:
        return await getattr(self._port, method_name)(*args, **kwargs)

    async def _call(
        self, method_name: str, act: Callable[[], Awaitable[Any]], is_late: Callable[[], None] = lambda: None
    ) -> Any:
        """Make a call, by its fate; `is_late` is told where it arrives after its sender has given it up."""
        process, world = self._process, self._process.world
        fates, rng = process.fates, world.rng
        label = f"{process.name} {self._name}.{method_name}"
        is_write = method_name in WRITES
        await self._pause(rng.random() * fates.pause_s, is_sent=rng.random() < 0.5)
        self._die_perhaps(fates, method_name, label, "before")
        process.suffer(fates)
        await process.thawed()
        if rng.random() < fates.stall and self._is_among(fates.stalling, method_name):
            world.note(f"{label} stalls")
            process.troubles += 1
            process.troubled_calls = _TROUBLED_CALLS
            seconds = rng.choice(fates.stalls_s)
            process.stalled_until_s = asyncio.get_running_loop().time() + seconds
            await self._pause(seconds)
        draw = rng.random()
        if draw < fates.unavailable:
            world.note(f"{label} unavailable")
            process.troubles += 1
            raise StoreUnavailable(label)
        draw -= fates.unavailable
        was_applied = False
        if is_write:
            if draw < fates.lost_request:
                world.note(f"{label} request lost")
                process.troubles += 1
                raise OutcomeUnknown(label)
            draw -= fates.lost_request
            if draw < fates.late and self._is_among(fates.lating, method_name):
                delay = rng.choice(fates.lates_s)
                world.note(f"{label} late by {delay}")
                process.troubled_calls = _TROUBLED_CALLS
                process.troubles += 1
                is_late()
                world.deliver(self._deliver(label, act, delay))
                raise OutcomeUnknown(label)
            draw -= fates.late
            if draw < fates.repeated:
                world.note(f"{label} repeated")
                try:
                    await self._act(act, is_told=False)
                    was_applied = True
                except StoreError:
                    pass
        try:
            due_s = await self._act(act)
        except StoreError as error:
            world.note(f"{label} -> {type(error).__name__}")
            process.troubles += not isinstance(error, ConditionFailed)
            process.answered()
            if was_applied and isinstance(error, StoreUnavailable):
                raise OutcomeUnknown(label) from error  # who repeats a call cannot say that it was not applied
            self._die_perhaps(fates, method_name, label, "after")
            await self._pause(rng.random() * fates.pause_s)
            raise
        world.note(f"{label} -> ok")
        if is_write and rng.random() < fates.lost_answer and self._is_among(fates.losing, method_name):
            world.note(f"{label} answer lost")
            process.troubled_calls = _TROUBLED_CALLS
            process.troubles += 1
            raise OutcomeUnknown(label)
        if method_name == "transact":
            # The answer to a transaction comes when all of its items are visible; one that is lost tells nothing.
            await self._pause(max(0.0, due_s - asyncio.get_running_loop().time()))
            due_s = None
        process.answered()
        self._die_perhaps(fates, method_name, label, "after")
        await self._pause(rng.random() * fates.pause_s)
        return due_s

    def _is_among(self, names: frozenset[str], method_name: str) -> bool:
        return not names or method_name in names or f"{self._name}.{method_name}" in names

    async def _act(self, act: Callable[[], Awaitable[Any]], *, is_told: bool = True) -> Any:
        """Apply the call; `is_told`: the process gets the answer."""
        ledger = self._process.world.ledger
        ledger.caller = self._process.name
        ledger.is_told = is_told
        ledger.is_transaction = self._name == "tables"
        try:
            return await act()
        except StoreRejected as error:
            ledger.problem(f"the store never takes what it was sent: {error}")
            raise
        finally:
            ledger.settled()

    async def _deliver(self, label: str, act: Callable[[], Awaitable[Any]], delay: float) -> None:
        await asyncio.sleep(delay)
        try:
            await self._act(act, is_told=False)
        except StoreError as error:
            self._process.world.note(f"{label} arrives late -> {type(error).__name__}")
        else:
            self._process.world.note(f"{label} arrives late -> ok")

    async def _pause(self, seconds: float, *, is_sent: bool = False) -> None:
        """Wait, and for as long as the process is frozen, unless the request is on its way."""
        if self._process.dead:
            raise Crash
        await asyncio.sleep(seconds)
        if not is_sent:
            await self._process.thawed()
        if self._process.dead:
            raise Crash

    def _die_perhaps(self, fates: Fates, method_name: str, label: str, when: str) -> None:
        if self._process.world.rng.random() < fates.crash and self._is_among(fates.crashing, method_name):
            self._process.world.note(f"{label} crashes {when}")
            self._process.kill()
            raise Crash


class SimObjects(SimPort):
    """The objects as a process sees them; the ledger is told of uploads that arrive late."""

    def __init__(self, process: Process, port: Any) -> None:
        super().__init__(process, port, "objects")
        self._epochs: dict[str, int] = {}  # of the maintenance lease under which an object was sent

    def __getattr__(self, method_name: str) -> Any:
        if method_name != "put":
            return super().__getattr__(method_name)

        process, ledger = self._process, self._process.world.ledger

        async def put(key: str, *args: Any) -> Any:
            epoch = self._epochs[key] = ledger.maintenance_epoch(key)

            def is_late() -> None:
                if epoch:
                    ledger.upkeep.sent_late(partition_of_object(key), epoch, process.name, key)

            return await self._call(method_name, lambda: self._perform(method_name, key, *args), is_late)

        return put

    async def _perform(self, method_name: str, *args: Any, **kwargs: Any) -> Any:
        result = await super()._perform(method_name, *args, **kwargs)
        ledger = self._process.world.ledger
        if method_name == "put" and not ledger.is_told and (epoch := self._epochs[args[0]]):
            ledger.upkeep.arrived(partition_of_object(args[0]), epoch, self._process.name, args[0])
        return result


class SimTable(SimPort):
    """A table, or the transactions across the tables, as a process sees it: with what is not visible yet."""

    def __init__(self, process: Process, tables: Tables, name: str) -> None:
        super().__init__(process, tables if name == "tables" else getattr(tables, name), name)
        self._tables = tables
        self._seen = process.world.visibility

    async def _perform(self, method_name: str, *args: Any, **kwargs: Any) -> Any:
        name: Any = self._name
        match method_name:
            case "get":
                [item] = await self._get([args[0]], **kwargs)
                return item
            case "get_many":
                return await self._get(args[0], **kwargs)
            case "query":
                is_consistent = kwargs.get("consistent", True)
                if self._seen.is_whole(name, args[0], consistent=is_consistent):
                    return await self._port.query(*args, **kwargs)
                rows = await self._port.query(*args, **{**kwargs, "limit": None})
                images = self._seen.seen(name, args[0], consistent=is_consistent)
                return overlaid(rows, images, args[0], kwargs)
            case "transact_get":
                self._seen.check(name, args[0])
            case "put" | "update" | "delete":
                self._sent([(name, args[0])])
                self._seen.check(name, [args[0].key])
                try:
                    return await super()._perform(method_name, *args, **kwargs)
                except ConditionFailed:
                    self._refused([(name, args[0])])
                    raise
            case "transact":
                return await self._transact(args[0])
        return await super()._perform(method_name, *args, **kwargs)

    async def _get(self, keys: Sequence[Key], *, consistent: bool = True) -> list[Item | None]:
        name: Any = self._name
        items = await self._port.get_many(keys, consistent=consistent) if keys else []
        for i, key in enumerate(keys):
            if not self._seen.is_whole(name, key.pk, consistent=consistent):
                images = self._seen.seen(name, key.pk, consistent=consistent)
                if key.sk in images:
                    items[i] = copied(images[key.sk])
        return items

    def _sent(self, operations: Sequence[tuple[str, Operation]]) -> None:
        self._process.world.ledger.late.sent(self._process.name, operations)

    def _refused(self, operations: Sequence[tuple[str, Operation]]) -> None:
        ledger = self._process.world.ledger
        if ledger.is_told:
            # Where not all is visible yet, a reader cannot know what refuses it.
            seen_operations = [
                operation
                for operation in operations
                if self._seen.is_whole(operation[0], operation[1].key.pk, consistent=True)
            ]
            ledger.futile.refused(self._process.name, seen_operations)

    async def _transact(self, operations: Sequence[Any]) -> float:
        """Apply a transaction; when all of it is visible, as the loop's time."""
        world = self._process.world
        if self._name == "tables":
            sent = [(operation.table, operation.operation) for operation in operations]
        else:
            sent = [(self._name, operation) for operation in operations]
        self._sent(sent)
        addressed: list[tuple[Any, Key]] = [(table, operation.key) for table, operation in sent]
        for table, key in addressed:
            self._seen.check(table, [key])
        images = [(table, key, await getattr(self._tables, table).get(key)) for table, key in addressed]
        try:
            await self._port.transact(operations)
        except TransactionCanceled as canceled:
            pairs = zip(sent, canceled.failures, strict=True)
            self._refused([operation for operation, failure in pairs if failure is not None])
            raise
        return self._seen.hold(images) if world.weather.random() < world.fates.torn else 0.0
