"""Planted bugs: what the simulation must find.

Each is a patch of the engine, in force inside a `with`; nothing in what is shipped knows of them. A bug is found in a
scenario that gives it a chance, within a bounded number of seeds (tests/integration/simulation/test_planted_bugs.py).
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from odradek.engine.partition.index import PartitionIndex
from odradek.ports.table import AllOf, Condition, Update

from tests.simulation.plan import Scenario

Patch = Callable[[], Any]
_FIRST_SEEDS = Path(__file__).with_name("first_seeds.json")


@dataclass(frozen=True)
class Planted:
    """A bug, and where it shows.

    Attributes:
        patch: makes the context manager that plants it.
        profile: the kind of scenario.
        change: what of the drawn scenario must be otherwise for the bug to have a chance.
        seeds: how many seeds from 1 are tried at most.
    """

    patch: Patch
    profile: str = "log"
    change: Callable[[Scenario], Scenario] | None = None
    seeds: int = 10

    def order(self, first: int | None) -> list[int]:
        """Return the seeds to try, beginning with the one that is known to show the bug."""
        seeds = list(range(1, self.seeds + 1))
        return sorted(seeds, key=lambda seed: seed != first)


class Found(NamedTuple):
    """A seed that shows a bug, and how many steps its run has."""

    seed: int
    steps: int


def first_seeds() -> dict[str, Found]:
    """Return what was found to show the bugs, by name (`python -m tests.simulation.planted`)."""
    kept = json.loads(_FIRST_SEEDS.read_text()) if _FIRST_SEEDS.exists() else {}
    return {name: Found(**kept_seed) for name, kept_seed in kept.items()}


def keep_first_seeds(seeds: Mapping[str, Found]) -> None:
    """Write what `first_seeds` returns."""
    lines = (f"{json.dumps(name)}: {json.dumps(seed_found._asdict())}" for name, seed_found in sorted(seeds.items()))
    _FIRST_SEEDS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


PLANTED: dict[str, Planted] = {}


def bug(
    profile: str = "log",
    *,
    seeds: int = 10,
    change: Callable[[Scenario], Scenario] | None = None,
    per_head: int = 1,
) -> Callable[[Patch], Patch]:
    """Register a function that plants a bug while it is suspended at its `yield`.

    Args:
        per_head: partitions that share a head.
    """
    shared = settings(default_partitions_per_head=per_head)

    def register(function: Patch) -> Patch:
        planted = contextmanager(function)
        PLANTED[function.__name__] = Planted(
            planted, profile, lambda scenario: shared(_changed(replace(scenario, tables=False), change)), seeds
        )
        return planted

    return register


def _changed(scenario: Scenario, change: Callable[[Scenario], Scenario] | None) -> Scenario:
    return scenario if change is None else change(scenario)


def settings(**values: Any) -> Callable[[Scenario], Scenario]:
    """A change of the scenario's settings."""
    return lambda scenario: replace(scenario, settings={**scenario.settings, **values})


def without(condition: Condition | None, dropped: Callable[[Condition], bool]) -> Condition | None:
    """The condition without some of its clauses."""
    if isinstance(condition, AllOf):
        return AllOf(tuple(condition for condition in condition.conditions if not dropped(condition)))
    return condition


class _Rewriting:
    """A table whose updates are changed on their way."""

    def __init__(self, table: Any, rewrite: Callable[[Update], Update]) -> None:
        self._table = table
        self._rewrite = rewrite

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    async def update(self, update: Update) -> Any:
        return await self._table.update(self._rewrite(as_expressions(update)))


def as_expressions(update: Update) -> Update:
    """An update that its expressions alone decide, so that a bug may change them."""
    return Update(update.key, update.actions, update.condition)


def rewritten_append(rewrite: Callable[[Update], Update]) -> Any:
    """A patch under which appends are changed on their way to the table."""
    original = PartitionIndex.append_all

    async def append_all(self: PartitionIndex, *args: Any, **kwargs: Any) -> Any:
        other = copy.copy(self)
        other._log = _Rewriting(self._log, rewrite)  # type: ignore[assignment]
        return await original(other, *args, **kwargs)

    return patch.object(PartitionIndex, "append_all", append_all)
