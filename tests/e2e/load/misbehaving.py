"""A store under load: throttled, slowed down, failing inside, timing out and stalling, by a seeded share of its calls.

    throttled     ProvisionedThroughputExceededException: StoreUnavailable, nothing applied
    slow_down     503 SlowDown: the same, and it took its time to say so
    internal      5xx of a write: OutcomeUnknown, by equal chances applied and not; of a read: StoreUnavailable
    timed_out     the answer never came: as `internal`, after a wait
    stalled       applied and answered, one second late

This is how the AWS adapter reports them (tests/unit/adapters/test_aws_failures.py); its own retries are not here, so
the engine meets each of them.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from odradek.errors import OutcomeUnknown, StoreUnavailable
from odradek.ports.tables import TableOperation

WRITES = frozenset({"put", "update", "delete", "transact"})
KINDS = ("throttled", "slow_down", "internal", "timed_out", "stalled")
Sleep = Callable[[float], Awaitable[None]]
SLOW_DOWN_S, TIMEOUT_S, STALL_S = 0.05, 0.2, 1.0


class Misbehaviour:
    """Which call fails, and how.

    Attributes:
        share: of the calls that fail; 1.0: every call is throttled.
    """

    def __init__(self, chance: random.Random, share: float, sleep: Sleep = asyncio.sleep) -> None:
        self._chance = chance
        self._sleep = sleep
        self.share = share
        self.calls: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()

    def counts(self) -> dict[str, dict[str, int]]:
        return {"calls": dict(self.calls), "faults": dict(self.faults)}

    async def around(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        """Make a call, or not, or not in time."""
        self.calls[name] += 1
        if self._chance.random() >= self.share:
            return await call()
        fault_kind = "throttled" if self.share >= 1 else self._chance.choice(KINDS)
        self.faults[fault_kind] += 1
        if fault_kind == "throttled":
            raise StoreUnavailable("ProvisionedThroughputExceededException")
        if fault_kind == "slow_down":
            await self._sleep(SLOW_DOWN_S)
            raise StoreUnavailable("503 SlowDown")
        if fault_kind == "stalled":
            await self._sleep(STALL_S)
            return await call()
        if name in WRITES and self._chance.random() < 0.5:
            await call()
        if fault_kind == "timed_out":
            await self._sleep(TIMEOUT_S)
        if name in WRITES:
            raise OutcomeUnknown(fault_kind)
        raise StoreUnavailable(fault_kind)


class MisbehavingPort:
    """A table or the objects."""

    def __init__(self, port: Any, misbehaviour: Misbehaviour) -> None:
        self._port, self._misbehaviour = port, misbehaviour

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)
        if not callable(method):
            return method
        return lambda *args, **kwargs: self._misbehaviour.around(name, lambda: method(*args, **kwargs))


class MisbehavingStore:
    """An embedded store with such ports."""

    def __init__(self, store: Any, misbehaviour: Misbehaviour) -> None:
        self._store, self._misbehaviour = store, misbehaviour
        for port_name in ("log", "groups", "catalog", "rows", "objects"):
            if not hasattr(store, port_name):  # memory keeps its objects apart
                continue
            setattr(self, port_name, MisbehavingPort(getattr(store, port_name), misbehaviour))

    async def transact(self, operations: Sequence[TableOperation]) -> None:
        await self._misbehaviour.around("transact", lambda: self._store.transact(operations))

    async def aclose(self) -> None:
        await self._store.aclose()
