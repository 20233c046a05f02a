"""The golden stores of releases (tests/golden/release.py), opened by today's code."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from odradek.adapters.memory import MemoryObjectStore, MemoryStore
from odradek.engine.engine import Engine
from odradek.ports.task_queue import TaskQueue
from odradek.registry.subjects import Subjects
from odradek.settings import Settings
from odradek.testing.manual_clock import ManualClock
from odradek.testing.seeded_rng import SeededRng

from tests.golden.release import RELEASES, SETTINGS
from tests.golden.stored import dump, load

ALL = sorted(path.name for path in RELEASES.iterdir())


@dataclass
class Stored:
    """A release's store, and what its users knew."""

    store: MemoryStore
    objects: MemoryObjectStore
    clock: ManualClock
    expected: dict[str, Any]

    def engine(self, seed: int = 1000, wakes: TaskQueue | None = None, **more: Any) -> Engine:
        settings, rng = Settings(**{**SETTINGS, **more}), SeededRng(seed)
        return Engine(
            tables=self.store, objects=self.objects, clock=self.clock, rng=rng, settings=settings, wakes=wakes
        )

    @property
    def schemas(self) -> Subjects:
        """The schema registry over the store."""
        return Subjects(self.store.catalog, self.clock, SeededRng(1001))

    def dump(self) -> dict[str, Any]:
        return dump(self.store, self.objects, 0)


async def open_release(release: str, change: Callable[[dict[str, Any]], None] | None = None) -> Stored:
    """The store that a release left; `change` alters the file's content first."""
    folder = RELEASES / release
    documents = {name: json.loads((folder / f"{name}.json").read_text()) for name in ("store", "expected")}
    if change is not None:
        change(documents["store"])
    return Stored(*await load(documents["store"]), documents["expected"])
