"""Incremental snapshots: tables that are read while changes are captured, asked for by rows in a table of signals.

A table is read in chunks by its primary key. Before and after a chunk is read, a watermark is written to the table of
signals. When the stream of changes comes to the second one, the rows of the chunk become records, but for those whose
key has changed between the watermarks: the stream has a newer state of them. (DBLog, Netflix 2019.)

    signal               data
    execute-snapshot     {"data-collections": ["schema.table", ...], "type": "incremental",
                          "additional-conditions": [{"data-collection": "schema.table", "filter": "a > 1"}]}
    stop-snapshot        {"data-collections": [...]}   without a list: everything
    pause-snapshot       {}
    resume-snapshot      {}
    log                  {"message": "..."}

The state is part of the source offset, so that a new task goes on with the chunk after the last one that was written.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from odradek.connect.connectors.cdc.tables import Table, TableId
from odradek.connect.data.structs import Struct
from odradek.connect.errors import ConfigError

_log = logging.getLogger("odradek.connect.cdc")
OPEN, CLOSE = "snapshot-window-open", "snapshot-window-close"


class Chunk(NamedTuple):
    """Rows of a table.

    Attributes:
        last: the key of the last row as JSON; None if there are no more rows.
    """

    table: Table
    rows: list[Struct]
    last: list[Any] | None


class ChunkReader(Protocol):
    """The part of a database in incremental snapshots."""

    def watermark(self, id: str, mark: str) -> None:
        """Commit a row with this id and type in the table of signals."""
        ...

    def greatest_key(self, table: TableId, condition: str) -> list[Any] | None:
        """Return the greatest key, None for no rows. Raises ConfigError for a table without a primary key, or none."""
        ...

    def chunk(self, table: TableId, condition: str, behind: list[Any] | None, until: list[Any]) -> Chunk:
        """Return the next rows of a table whose keys are behind `behind` and not behind `until`."""
        ...

    def tables(self) -> list[TableId]:
        """Return the tables that are captured."""
        ...


class Incremental:
    """The incremental snapshots of one task.

    Args:
        offset: the source offset.
        seed: tells the watermarks of this run from those of an earlier one.

    Attributes:
        signals: the next offset of the topic of signals; None before the first one.
    """

    def __init__(self, offset: Mapping[str, Any], seed: str) -> None:
        saved = offset.get("incremental") or {}
        self.signals: int | None = offset.get("signals")
        self._queue: list[list[str]] = [
            list(table_and_condition) for table_and_condition in saved.get("tables", ())
        ]  # table, condition
        self._behind: list[Any] | None = saved.get("behind")
        self._until: list[Any] | None = saved.get("until")
        self._paused: bool = bool(saved.get("paused"))
        self._number: int = int(saved.get("chunk", 0))
        self._seed = seed
        self._chunk: Chunk | None = None
        self._rows: dict[tuple[Any, ...], Struct] = {}
        self._is_open = False

    def state(self) -> dict[str, Any]:
        """Return what goes into the source offset beside the position."""
        saved: dict[str, Any] = {} if self.signals is None else {"signals": self.signals}
        if self._queue:
            saved["incremental"] = {
                "tables": [list(table_and_condition) for table_and_condition in self._queue],
                "behind": self._behind,
                "until": self._until,
                "paused": self._paused,
                "chunk": self._number,
            }
        return saved

    # --- reading ----------------------------------------------------------------------------------------------------

    def read(self, reader: ChunkReader) -> None:
        """Read the next chunk between two watermarks, if there is one to read and none is waiting for its stream."""
        if self._chunk is not None or self._paused:
            return
        while self._queue:
            name, condition = self._queue[0]
            table = TableId.parse(name)
            try:
                if self._until is None:
                    self._until = reader.greatest_key(table, condition)
                if self._until is not None:
                    break
            except ConfigError as error:
                _log.warning("the incremental snapshot of %s is left out: %s", name, error)
            self._next_table()
        else:
            return
        self._number += 1
        reader.watermark(self._id("open"), OPEN)
        chunk = reader.chunk(table, condition, self._behind, self._until)
        reader.watermark(self._id("close"), CLOSE)
        self._chunk = chunk
        self._rows = {_key(chunk.table, row): row for row in chunk.rows}

    def _id(self, mark: str) -> str:
        return f"{self._seed}-{self._number}-{mark}"

    def _next_table(self) -> None:
        self._queue.pop(0)
        self._behind = self._until = None

    # --- the stream -------------------------------------------------------------------------------------------------

    def changed(self, table: Table, row: Struct | None) -> None:
        """A change of a row came: a row of the chunk with its key is older."""
        if self._is_open and row is not None and self._chunk is not None and table.id == self._chunk.table.id:
            self._rows.pop(_key(self._chunk.table, row), None)

    def truncated(self, table: TableId) -> None:
        if self._is_open and self._chunk is not None and table == self._chunk.table.id:
            self._rows.clear()

    def watermark(self, id: str) -> Chunk | None:
        """A watermark came. Return the rows that become records, behind the second one."""
        if self._chunk is None:
            return None
        if id == self._id("open"):
            self._is_open = True
            return None
        if id != self._id("close") or not self._is_open:
            return None
        chunk, rows = self._chunk, list(self._rows.values())
        self._chunk, self._rows, self._is_open = None, {}, False
        if chunk.last is None:
            _log.info("the incremental snapshot of %s is complete", chunk.table.id)
            self._next_table()
        else:
            self._behind = chunk.last
        return chunk._replace(rows=rows)

    # --- signals ----------------------------------------------------------------------------------------------------

    def signal(self, signal_type: str, data: str | None, tables: list[TableId]) -> bool:
        """Carry out a signal. Return True if the state has changed.

        Args:
            tables: those that are captured.
        """
        try:
            signal_data = json.loads(data or "{}")
            if not isinstance(signal_data, dict):
                raise ValueError("it must be an object")
        except ValueError as error:
            _log.warning("the signal %s is left out, its data is not valid JSON: %s", signal_type, error)
            return False
        if signal_type == "execute-snapshot":
            return self._execute(signal_data, tables)
        if signal_type == "stop-snapshot":
            return self._stop(signal_data)
        if signal_type in ("pause-snapshot", "resume-snapshot"):
            self._paused = signal_type == "pause-snapshot"
            return True
        if signal_type == "log":
            _log.info("signal: %s", signal_data.get("message"))
        elif signal_type not in (OPEN, CLOSE):
            _log.warning("the signal %s is unknown", signal_type)
        return False

    def _execute(self, signal_data: Mapping[str, Any], tables: list[TableId]) -> bool:
        if str(signal_data.get("type", "incremental")).lower() != "incremental":
            _log.warning("the signal execute-snapshot knows the type incremental only, not %s", signal_data.get("type"))
            return False
        conditions = {
            str(condition_data.get("data-collection")): str(condition_data.get("filter", ""))
            for condition_data in signal_data.get("additional-conditions", ())
            if isinstance(condition_data, dict)
        }
        waiting = {name for name, _ in self._queue}
        is_added = False
        for pattern in signal_data.get("data-collections", ()):
            chosen = [str(table) for table in tables if _matches(str(pattern), str(table))]
            if not chosen:
                _log.warning("the signal execute-snapshot names %s, which is not captured", pattern)
            for name in chosen:
                if name not in waiting:
                    waiting.add(name)
                    self._queue.append([name, conditions.get(name, conditions.get(str(pattern), ""))])
                    is_added = True
        return is_added

    def _stop(self, signal_data: Mapping[str, Any]) -> bool:
        patterns = [str(collection) for collection in signal_data.get("data-collections", ())]
        kept = [queued for queued in self._queue if patterns and not any(_matches(p, queued[0]) for p in patterns)]
        if self._queue and (not kept or kept[0] != self._queue[0]):
            self._behind = self._until = None
            self._chunk, self._rows, self._is_open = None, {}, False
        is_changed = kept != self._queue
        self._queue = kept
        return is_changed


def _key(table: Table, row: Struct) -> tuple[Any, ...]:
    return tuple(repr(row[name]) for name in table.key)


def _matches(pattern: str, name: str) -> bool:
    try:
        return pattern == name or re.fullmatch(pattern, name) is not None
    except re.error:
        return False
