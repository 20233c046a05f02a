"""Stores that fail by script: wrap a port and choose the calls that fail.

    Fault.UNAVAILABLE        StoreUnavailable, nothing applied
    Fault.LOST_REQUEST       OutcomeUnknown, nothing applied
    Fault.LOST_ANSWER        OutcomeUnknown, although applied
    Fault.LATE               OutcomeUnknown now; applied (if its condition still holds) when `deliver_late` is called
    Fault.REPEATED           applied twice, as a retrying client or network does; the caller sees the second answer

A call is named by its method (`update`, `put` ...). `script` maps the n-th call of a method (from 1) to its fault.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum
from typing import Any

from odradek.errors import OutcomeUnknown, StoreError, StoreUnavailable
from odradek.ports.tables import TableOperation, Tables


class Fault(Enum):
    UNAVAILABLE = "unavailable"
    LOST_REQUEST = "lost request"
    LOST_ANSWER = "lost answer"
    LATE = "late"
    REPEATED = "repeated"


class Faulty:
    """A port (Table, ObjectStore) whose calls are recorded and fail by script.

    Attributes:
        calls: the methods called, in order, failed ones included.
    """

    def __init__(self, port: Any, script: Mapping[tuple[str, int], Fault] | None = None) -> None:
        self._port = port
        self.script = dict(script or {})
        self.calls: list[str] = []
        self._late: list[Callable[[], Awaitable[Any]]] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)
        if not callable(method):
            return method

        async def call(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(name)
            fault = self.script.get((name, self.calls.count(name))) if self.script else None
            if fault is Fault.UNAVAILABLE:
                raise StoreUnavailable(f"{name}: made to fail")
            if fault is Fault.LOST_REQUEST:
                raise OutcomeUnknown(f"{name}: made to fail")
            if fault is Fault.LATE:
                self._late.append(lambda: method(*args, **kwargs))
                raise OutcomeUnknown(f"{name}: made to be late")
            if fault is Fault.REPEATED:
                await method(*args, **kwargs)
            result = await method(*args, **kwargs)
            if fault is Fault.LOST_ANSWER:
                raise OutcomeUnknown(f"{name}: made to fail")
            return result

        return call

    async def deliver_late(self) -> int:
        """Deliver the late calls, in order; return how many of them were applied."""
        applied = 0
        for deliver in self._late:
            try:
                await deliver()
            except StoreError:
                continue
            applied += 1
        self._late.clear()
        return applied

    def count(self, name: str) -> int:
        """Return the number of calls of a method."""
        return self.calls.count(name)


class FaultyTables:
    """The tables of one store, each of them and the transactions across them `Faulty`."""

    def __init__(self, tables: Tables) -> None:
        self.log: Any = Faulty(tables.log)
        self.groups: Any = Faulty(tables.groups)
        self.catalog: Any = Faulty(tables.catalog)
        self.rows: Any = Faulty(getattr(tables, "rows", None))
        self.across = Faulty(tables)

    async def transact(self, operations: Sequence[TableOperation]) -> None:
        """Implement `Tables.transact`; its calls and script are those of `across`."""
        await self.across.transact(operations)
