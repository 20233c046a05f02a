"""The parts of served tables in one process, put together: by the embedded service and by functions."""

from __future__ import annotations

from dataclasses import dataclass

from odradek.engine.engine import Engine
from odradek.ports.table import Table
from odradek.ports.task_queue import TaskQueue
from odradek.registry.subjects import Subjects
from odradek.served.api import TablesApi
from odradek.served.definition import Definitions
from odradek.served.follow import TableMaintainer
from odradek.served.reads import TableReader
from odradek.served.sweep import TableSweep
from odradek.served.tables import Tables
from odradek.served.values import RegistrySchemas


@dataclass(frozen=True, slots=True)
class TableParts:
    """The served tables' parts of one process."""

    tables: Tables
    reader: TableReader
    maintainer: TableMaintainer
    sweep: TableSweep
    api: TablesApi


def wire_tables(engine: Engine, rows: Table, queue: TaskQueue, *, expires: bool = False) -> TableParts:
    """Put the parts together.

    Args:
        rows: the table of rows.
        queue: takes wake messages.
        expires: rows that have expired are removed by the sweep, not by the store.
    """
    definitions = Definitions(engine)
    maintainer = TableMaintainer(engine, rows, definitions, queue)
    schemas = RegistrySchemas(Subjects(engine.catalog, engine.clock, engine.rng))
    reader = TableReader(engine, rows, definitions, maintainer, schemas)
    tables = Tables(engine, rows, definitions, queue)
    return TableParts(
        tables,
        reader,
        maintainer,
        TableSweep(engine, rows, definitions, queue, expires=expires),
        TablesApi(tables, reader, engine.acls),
    )
