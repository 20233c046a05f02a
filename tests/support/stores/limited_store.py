"""A store that refuses calls from some moment on: as DynamoDB refuses what is beyond its limits, or throttles."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from odradek.errors import StoreError
from odradek.ports.tables import Tables

WRITES = frozenset({"put", "update", "delete", "transact"})


class Limits:
    """Limits of the tables that share it.

    Attributes:
        error: makes what is raised; None: nothing is refused.
        allowed: writes that still pass.
        passed, refused: of them since `begin`.
        calls: reads included.
    """

    def __init__(self) -> None:
        self.error: Callable[[], StoreError] | None = None
        self.end()

    def begin(
        self,
        error: Callable[[], StoreError] | None,
        allowed: int = 0,
        *,
        refuses_reads: bool = False,
        only: int | None = None,
    ) -> None:
        """From now on `allowed` more writes pass; each one after them is refused with the error.

        Args:
            refuses_reads: whether reads count as writes do.
            only: refuse this call alone, from 0.
        """
        self.error, self.allowed, self.passed, self.refused = error, allowed, 0, 0
        self._refuses_reads, self._only, self.calls = refuses_reads, only, 0

    def end(self) -> None:
        """Let everything pass."""
        self.begin(None)

    def check(self, name: str) -> None:
        """Count a call. Raises the error where it is refused."""
        self.calls += 1
        if name not in WRITES and not self._refuses_reads:
            return
        is_meant = self.passed >= self.allowed if self._only is None else self.calls == self._only + 1
        if self.error is not None and is_meant:
            self.refused += 1
            raise self.error()
        self.passed += 1


class _Limited:
    def __init__(self, port: Any, limits: Limits) -> None:
        self._port = port
        self._limits = limits

    def __getattr__(self, name: str) -> Any:
        method: Callable[..., Awaitable[Any]] = getattr(self._port, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            self._limits.check(name)
            return await method(*args, **kwargs)

        return call


class LimitedTables(_Limited):
    """The tables of one store, each of them and the transactions across them under the same limits."""

    def __init__(self, tables: Tables, limits: Limits) -> None:
        super().__init__(tables, limits)
        self.log = _Limited(tables.log, limits)
        self.groups = _Limited(tables.groups, limits)
        self.catalog = _Limited(tables.catalog, limits)
