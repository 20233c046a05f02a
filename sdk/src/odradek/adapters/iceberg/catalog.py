"""ports.table_catalog.TableCatalog over PyIceberg, which blocks: each call is in a thread.

PyIceberg is imported at the first call, so a process that only plans needs none, and one that lacks it refuses the
table, with the extra's name, and nothing else. So does a catalog that does not answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from odradek.model.kinds import Kind
from odradek.ports.table_catalog import LoadedTable, TableChange, TableName

if TYPE_CHECKING:
    from odradek.adapters.iceberg.tables import IcebergTables

T = TypeVar("T")

NAME = "odradek"
"""By which PyIceberg finds more properties: PYICEBERG_CATALOG__ODRADEK__... and .pyiceberg.yaml."""


class IcebergCatalog:
    """Iceberg tables over objects of the log.

    Args:
        properties: PyIceberg's, of the catalog: type, uri, warehouse and others.
        location: before the keys of objects: `s3://bucket` or `file:///folder`.
    """

    def __init__(self, properties: Mapping[str, str], location: str) -> None:
        self._properties = dict(properties)
        self._location = location
        self._opened: IcebergTables | None = None
        self._opening = asyncio.Lock()

    async def load(self, name: TableName) -> LoadedTable | None:
        tables = await self._tables()
        return await self._run(lambda: tables.load(name))

    async def create(self, name: TableName, topic_id: UUID, columns: Sequence[tuple[str, Kind]]) -> None:
        tables = await self._tables()
        await self._run(lambda: tables.create(name, topic_id, columns))

    async def commit(self, table: LoadedTable, change: TableChange) -> Sequence[str]:
        tables = await self._tables()
        return await self._run(lambda: tables.commit(table, change))

    async def expire(self, name: TableName, *, before_ms: int | None) -> int:
        tables = await self._tables()
        return await self._run(lambda: tables.expire(name, before_ms))

    async def drop(self, name: TableName) -> None:
        tables = await self._tables()
        await self._run(lambda: tables.drop(name))

    async def _tables(self) -> IcebergTables:
        async with self._opening:
            if self._opened is None:
                self._opened = await self._run(self._open)
            return self._opened

    def _open(self) -> IcebergTables:
        from odradek.adapters.iceberg.tables import IcebergTables

        return IcebergTables.open(NAME, self._properties, self._location)

    @staticmethod
    async def _run(call: Callable[[], T]) -> T:
        return await asyncio.to_thread(call)


def open_catalog(text: str, location: str) -> IcebergCatalog | None:
    """Return the catalog of the setting `table_catalog`; None where it is empty.

    Args:
        text: `property=value,...`, as Settings has checked it.
    """
    return IcebergCatalog(parse_properties(text), location) if text else None


def embedded_catalog(text: str, data_dir: Path | str) -> IcebergCatalog:
    """Return the catalog of an embedded store: that of the setting, or one in SQLite beside the objects."""
    folder = Path(data_dir).absolute()
    location = f"file://{folder}/objects"
    if text:
        return IcebergCatalog(parse_properties(text), location)
    return IcebergCatalog(embedded_properties(folder), location)


def embedded_properties(data_dir: Path | str) -> dict[str, str]:
    """Return the properties with which PyIceberg's `load_catalog` opens the catalog of an embedded store."""
    folder = Path(data_dir).absolute() / "iceberg"
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}


def parse_properties(text: str) -> dict[str, str]:
    """Return the properties of `property=value,...`. Raises ValueError for other text."""
    properties = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not name.strip() or not equals:
            raise ValueError(part)
        properties[name.strip()] = value.strip()
    return properties
