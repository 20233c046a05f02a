"""The state of a topic's table: one item of the catalog (docs/formats/item_keys.md).

Key: `tables`, `<topic id>`. Lifetime: made when a table topic first has something to say, removed with the topic.

    v    format version 1
    n    [namespace, table] of the Iceberg table; absent: there is none, and no object waits for one
    g    version of the topic's row by which `n` was decided
    e    {partition: epoch of its maintenance lease} when the Iceberg table had all of its files
    w    why the Iceberg table is behind, as text; absent: it is not
    t    since when, ms
    r    segments that could not be made columnar, so far
    rw   why the last one was
    rt   when, ms
    u    files without the typed columns of their topic's schema, so far
    uw   why the last one
    ut   when, ms

`n` is written before the table is created, and stays until it is dropped: while it is there, no data file is deleted
before the table has let go of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from odradek.engine.partition.fields import attribute, check_version, is_version_or_absent
from odradek.errors import ConditionFailed, FormatError
from odradek.format.item_keys import TABLES_PK, topic_id_sk
from odradek.ports.table import Action, Delete, Item, Key, Remove, Set, Table, Update
from odradek.ports.table_catalog import TableName

VERSION = 1


@dataclass(frozen=True, slots=True)
class TableState:
    """The item; see the module."""

    topic_id: UUID
    name: TableName | None = None
    topic_version: int = 0
    epochs: Mapping[int, int] = field(default_factory=dict)
    behind_why: str | None = None
    behind_since_ms: int = 0
    refused: int = 0
    refused_why: str = ""
    refused_ms: int = 0
    untyped: int = 0
    untyped_why: str = ""
    untyped_ms: int = 0


class TableStates:
    """Reads and writes the states."""

    def __init__(self, catalog: Table) -> None:
        self._catalog = catalog

    async def read(self, topic_id: UUID) -> TableState:
        """Return the state of a topic's table, by a consistent read. Raises StoreUnavailable, FormatError."""
        item = await self._catalog.get(_key(topic_id))
        return TableState(topic_id) if item is None else _decode(topic_id, item)

    async def all(self) -> list[TableState]:
        """Return all states. Raises StoreUnavailable, FormatError."""
        rows = await self._catalog.query(TABLES_PK)
        return [_decode(_topic_id(row.key.sk), row.item) for row in rows]

    async def name(self, topic_id: UUID, name: TableName | None, topic_version: int) -> None:
        """Say which Iceberg table the topic has from now on. Raises StoreUnavailable, OutcomeUnknown: repeat it."""
        actions: tuple[Action, ...] = (Set(("g",), topic_version), Remove(("e",)), Remove(("w",)), Remove(("t",)))
        names: Action = Remove(("n",)) if name is None else Set(("n",), [name.namespace, name.table])
        await self._change(topic_id, (names, *actions))

    async def followed(self, topic_id: UUID, epochs: Mapping[int, int]) -> None:
        """Note that the Iceberg table has the files of the rows under these epochs."""
        packed: dict[str, int] = {str(number): epoch for number, epoch in epochs.items()}
        await self._change(topic_id, (Set(("e",), dict(packed)), Remove(("w",)), Remove(("t",))))

    async def behind(self, before: TableState, why: str, now_ms: int) -> None:
        """Note why the Iceberg table is behind; the time of the first such note stays."""
        if before.behind_why != why:
            since = before.behind_since_ms if before.behind_why is not None else now_ms
            await self._change(before.topic_id, (Set(("w",), why), Set(("t",), since)))

    async def refused(self, topic_id: UUID, more: int, why: str, now_ms: int) -> None:
        """Count segments that stay batches, and say why the last one does."""
        state = await self.read(topic_id)
        actions = (Set(("r",), state.refused + more), Set(("rw",), why), Set(("rt",), now_ms))
        await self._change(topic_id, actions)

    async def untyped(self, topic_id: UUID, more: int, why: str, now_ms: int) -> None:
        """Count files that lack the typed columns of a schema, and say why the last one does."""
        state = await self.read(topic_id)
        actions = (Set(("u",), state.untyped + more), Set(("uw",), why), Set(("ut",), now_ms))
        await self._change(topic_id, actions)

    async def forget(self, topic_id: UUID) -> None:
        """Remove the state of a deleted topic."""
        await self._catalog.delete(Delete(_key(topic_id)))

    async def _change(self, topic_id: UUID, actions: tuple[Action, ...]) -> None:
        update = Update(_key(topic_id), (Set(("v",), VERSION), *actions), is_version_or_absent(VERSION))
        try:
            await self._catalog.update(update)
        except ConditionFailed as refused:
            if refused.current is not None:
                check_version(refused.current, VERSION, "the state of a table")
            raise


def _key(topic_id: UUID) -> Key:
    return Key(TABLES_PK, topic_id_sk(topic_id))


def _topic_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise FormatError(f"the state of a table has the key {text!r}, which is no topic id") from None


def _decode(topic_id: UUID, item: Item) -> TableState:
    check_version(item, VERSION, "the state of a table")
    name = None
    if "n" in item:
        parts = attribute(item, "n", list)
        if len(parts) != 2 or not all(isinstance(part, str) for part in parts):
            raise FormatError("the state of a table has no name of two parts")
        name = TableName(*parts)
    epochs = attribute(item, "e", dict) if "e" in item else {}
    return TableState(
        topic_id,
        name,
        topic_version=attribute(item, "g", int) if "g" in item else 0,
        epochs={int(number): int(epoch) for number, epoch in epochs.items()},
        behind_why=attribute(item, "w", str) if "w" in item else None,
        behind_since_ms=attribute(item, "t", int) if "t" in item else 0,
        refused=attribute(item, "r", int) if "r" in item else 0,
        refused_why=attribute(item, "rw", str) if "rw" in item else "",
        refused_ms=attribute(item, "rt", int) if "rt" in item else 0,
        untyped=attribute(item, "u", int) if "u" in item else 0,
        untyped_why=attribute(item, "uw", str) if "uw" in item else "",
        untyped_ms=attribute(item, "ut", int) if "ut" in item else 0,
    )
