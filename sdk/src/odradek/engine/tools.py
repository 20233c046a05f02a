"""The ports and settings that the parts of one engine share."""

from __future__ import annotations

from dataclasses import dataclass, field

from odradek.backoff import Backoff
from odradek.engine.damage import Damages
from odradek.ports.clock import Clock
from odradek.ports.object_store import ObjectStore
from odradek.ports.rng import Rng
from odradek.ports.table_catalog import TableCatalog
from odradek.ports.tables import Tables
from odradek.ports.task_queue import TaskQueue
from odradek.ports.value_schemas import ValueSchemas
from odradek.settings import Settings


@dataclass(frozen=True, slots=True)
class Tools:
    """The ports and settings of an engine, in one argument.

    It holds no part of the engine: a constructor names the parts that it works with. A part that needs one table and
    a port or two names those instead, so that its constructor shows what it can reach.

    Args:
        tables: log, groups and catalog, and transactions across them.
        objects: WAL objects and segments.
        clock, rng: time and random numbers.
        settings: the operator's settings.
        wakes: the queue that wakes triggers; None: appends leave marks as they are (engine/marks.py).
        table_catalog: of Iceberg tables; None: this process has none.
        value_schemas: the registry, for typed columns; None: this process has none.
        damages: notes the damage that this process meets.
        uses_threads: maintenance does long computations in threads, since the process serves clients by the same loop.
    """

    tables: Tables
    objects: ObjectStore
    clock: Clock
    rng: Rng
    settings: Settings
    wakes: TaskQueue | None = None
    table_catalog: TableCatalog | None = None
    value_schemas: ValueSchemas | None = None
    damages: Damages = field(default_factory=Damages)
    uses_threads: bool = False

    def backoff(self, *, first_s: float, max_s: float) -> Backoff:
        """Return a back-off by this clock and this chance; see `odradek.backoff`."""
        return Backoff(self.clock, self.rng, first_s=first_s, max_s=max_s)
