"""The embedded store: four tables in one SQLite file and the objects beside it.

    <data_dir>/lock          held by the writing process
    <data_dir>/odradek.db    the tables, with -wal and -shm beside it
    <data_dir>/objects/      the objects
    <data_dir>/uploads/      uploads in progress

One process writes. Others may open the same folder with `read_only`, for example the workers of a Spark job.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from odradek.adapters.embedded.database import Check, Database, Synchronous
from odradek.adapters.embedded.object_store import FileObjectStore
from odradek.adapters.embedded.table import SqliteTable, transact
from odradek.errors import StoreUnavailable
from odradek.ports.meter import Meter, NullMeter
from odradek.ports.tables import TableOperation
from odradek.system import SystemClock

DATABASE_NAME = "odradek.db"


class EmbeddedStore:
    """ports.tables.Tables and an object store over one folder. Use `open_embedded`; close it with `aclose`."""

    def __init__(self, database: Database, objects: FileObjectStore, meter: Meter) -> None:
        self._database = database
        self._meter = meter
        self.clock = SystemClock()
        self.objects = objects
        self.log = SqliteTable(database, "log", meter)
        self.groups = SqliteTable(database, "groups", meter)
        self.catalog = SqliteTable(database, "catalog", meter)
        self.rows = SqliteTable(database, "rows", meter)

    async def transact(self, operations: Sequence[TableOperation]) -> None:
        await transact(self._database, operations, self._meter)

    async def aclose(self) -> None:
        """Finish the work in progress and release the folder. May be called twice."""
        await self.objects.aclose()
        await asyncio.get_running_loop().run_in_executor(None, self._database.close)

    async def __aenter__(self) -> EmbeddedStore:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def open_embedded(
    data_dir: Path | str,
    *,
    meter: Meter | None = None,
    synchronous: Synchronous = "FULL",
    read_only: bool = False,
    check: Check = "none",
) -> EmbeddedStore:
    """Open the store in a folder, creating it unless `read_only`.

    Args:
        data_dir: the folder.
        meter: counts what AWS would bill.
        synchronous: "FULL" syncs every commit and upload to disk; "NORMAL" does not: a power loss may lose the newest
            writes, a killed process does not.
        read_only: take no lock; writes raise StoreUnavailable.
        check: check the database for damage first: "quick" for some seconds at most, "full" completely.

    Raises:
        StoreUnavailable: the folder cannot be used: another process writes to it, it is read-only, or its database is
            damaged or of another release.
    """
    folder, counter = Path(data_dir), meter or NullMeter()
    path = folder / DATABASE_NAME
    if read_only and not path.exists():
        raise StoreUnavailable(f"there is no store in {folder}")
    database = Database(path, synchronous=synchronous, read_only=read_only, check=check)
    objects = FileObjectStore(folder, meter=counter, fsync=synchronous == "FULL")
    if not read_only:
        try:
            objects.remove_stale_uploads()
        except OSError as error:
            database.close()
            raise StoreUnavailable(f"cannot write to {folder}: {error.strerror}") from error
    return EmbeddedStore(database, objects, counter)
