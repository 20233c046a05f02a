"""Planted bugs of columnar segments, in runs whose topics are tables (every second seed)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from odradek.adapters.memory import MemoryTableCatalog
from odradek.columnar.recipes.writer import RecipeWriter
from odradek.engine.iceberg.decisions import files_of, table_name
from odradek.engine.iceberg.follower import TableFollower
from odradek.engine.maintenance import merge
from odradek.engine.maintenance.segment_swap import SegmentSwap
from odradek.engine.maintenance.table_segments import TableSegment
from odradek.engine.partition.index_row import IndexRow
from odradek.engine.read.segment_reader import SegmentIndexes
from odradek.format.parquet import segment as columnar_segment
from odradek.format.segment import Segment
from odradek.ports.table_catalog import TableChange

from tests.simulation.plan import Scenario
from tests.simulation.planted.bug import bug, settings


def _small(scenario: Scenario) -> Scenario:
    """Small files, in every second run."""
    change = settings(segment_bytes_max=500, merge_rows_min=1, merge_delay_ms=0, table_group_bytes=100)
    return change(replace(scenario, tables=True))


@bug("upkeep", change=_small)
def file_without_its_last_row_group() -> Iterator[None]:
    """The upload of a Parquet file ends early, and its row takes the place of the others."""
    original = merge.as_table

    async def cut(*arguments: Any) -> TableSegment:
        made = (await original(*arguments)).segment
        if not made.index.is_columnar:
            return TableSegment(made)
        return TableSegment(replace(made, parts=(memoryview(made.parts[0])[: made.index.groups[-1].position],)))

    with patch.object(merge, "as_table", cut):
        yield


@bug("upkeep", change=_small)
def file_swapped_before_its_upload() -> Iterator[None]:
    """Rows name a Parquet file that is not there yet."""
    original_put, original_replace = SegmentSwap._put, SegmentSwap.replace
    late: list[tuple[Any, ...]] = []

    async def put(self: SegmentSwap, *arguments: Any) -> None:
        if arguments[1].endswith(".parquet"):
            late.append(arguments)
        else:
            await original_put(self, *arguments)

    async def swap(self: SegmentSwap, *arguments: Any) -> None:
        await original_replace(self, *arguments)
        while late:
            await original_put(self, *late.pop())

    with patch.object(SegmentSwap, "_put", put), patch.object(SegmentSwap, "replace", swap):
        yield


@bug("upkeep", change=_small)
def values_of_the_next_row() -> Iterator[None]:
    """A fetch of old offsets gives each record the value of the one after it, and no maintainer compares."""
    original = columnar_segment._spread

    def spread(column: Any) -> list[bytes | None]:
        values = original(column)
        return values[1:] + values[:1]

    with (
        patch.object(columnar_segment, "_spread", spread),
        patch("odradek.columnar.table_file._compare", lambda *_: None),
    ):
        yield


def _typed(scenario: Scenario) -> Scenario:
    """Small files, which make values of typed columns."""
    return replace(_small(scenario), typed=True)


@bug("upkeep", change=_typed)
def values_of_the_next_rows_cells() -> Iterator[None]:
    """A recipe takes the cells of the row after its own; no maintainer compares, and nobody checks a CRC."""
    original = columnar_segment.made_again

    def shifted(recipes: Any, rests: Any, kept: Any, cells_of: Any) -> Any:
        return original(recipes, rests, kept, lambda path: [*cells_of(path)[1:], *cells_of(path)[:1]])

    with (
        patch.object(columnar_segment, "made_again", shifted),
        patch.object(columnar_segment, "crc_of_values", lambda _: 0),
        patch("odradek.columnar.table_file.crc_of_values", lambda _: 0),
        patch("odradek.columnar.table_file._compare", lambda *_: None),
    ):
        yield


@bug("upkeep", change=_typed)
def bytes_dropped_without_a_recipe() -> Iterator[None]:
    """A value of each row group has neither bytes nor a recipe; no maintainer compares, and nobody checks a CRC."""
    original = RecipeWriter.columns_of

    def dropped(self: RecipeWriter, *arguments: Any) -> Any:
        made = original(self, *arguments)
        recipes = made.recipes.to_pylist()
        last = next((row for row in reversed(range(len(recipes))) if recipes[row] is not None), None)
        return made._replace(
            recipes=pa.array([None if row == last else recipe for row, recipe in enumerate(recipes)], pa.binary())
        )

    with (
        patch.object(RecipeWriter, "columns_of", dropped),
        patch.object(columnar_segment, "crc_of_values", lambda _: 0),
        patch("odradek.columnar.table_file.crc_of_values", lambda _: 0),
        patch("odradek.columnar.table_file._compare", lambda *_: None),
    ):
        yield


def _closed_by_time(scenario: Scenario) -> Scenario:
    """Files that time closes long before they are full, so that many are joined."""
    return replace(settings(merge_rows_min=1, merge_delay_ms=0)(scenario), tables=True, closes_by_time=True)


@bug("upkeep", change=_closed_by_time, seeds=20)
def files_joined_without_the_last() -> Iterator[None]:
    """The file in the place of several small ones has the records of all but the last of them."""
    original_rewrite, original_pieces = merge.Merger.rewrite, SegmentIndexes.pieces
    left_out: dict[SegmentIndexes, IndexRow] = {}

    async def rewrite(self: merge.Merger, held: Any, rows: Any, window: tuple[int, int], policy: Any) -> bool:
        chosen = rows[slice(*window)]
        if len(chosen) > 1 and all(row.is_columnar for row in chosen):
            left_out[self._segments] = chosen[-1]
        try:
            return await original_rewrite(self, held, rows, window, policy)
        finally:
            left_out.pop(self._segments, None)

    async def pieces(self: SegmentIndexes, partition: Any, row: IndexRow, wanted: Any) -> Any:
        found = await original_pieces(self, partition, row, wanted)
        return found[:0] if left_out.get(self) == row else found

    with patch.object(merge.Merger, "rewrite", rewrite), patch.object(SegmentIndexes, "pieces", pieces):
        yield


def _iceberg(scenario: Scenario) -> Scenario:
    """Small files, in Iceberg tables."""
    return replace(_small(scenario), iceberg=True)


@bug("upkeep", change=_iceberg)
def iceberg_commit_before_the_swap() -> Iterator[None]:
    """A maintainer gives the table a file as soon as it is uploaded: the swap may never come."""
    original = SegmentSwap.upload

    async def upload(self: SegmentSwap, held: Any, old: Any, segment: Segment) -> Any:
        row = await original(self, held, old, segment)
        catalog = held.tables._catalog
        name = table_name(held.topic, held.config)
        if row.is_columnar and catalog is not None and name is not None:
            loaded = await catalog.load(name)
            if loaded is not None:
                await catalog.commit(loaded, TableChange(None, [*files_of(held.partition, [row])], (), {}))
        return row

    with patch.object(SegmentSwap, "upload", upload):
        yield


@bug("upkeep", change=_iceberg)
def retention_forgets_the_snapshot() -> Iterator[None]:
    """Files go while the table has them."""

    async def release(*_: Any) -> bool:
        return True

    with patch.object(TableFollower, "release", release):
        yield


@bug("upkeep", change=_iceberg)
def older_snapshots_stay() -> Iterator[None]:
    """Files leave the table before they go, and its history keeps them."""
    original = MemoryTableCatalog.expire

    async def expire(self: MemoryTableCatalog, name: Any, *, before_ms: int | None) -> int:
        return 0 if before_ms is None else await original(self, name, before_ms=before_ms)

    with patch.object(MemoryTableCatalog, "expire", expire):
        yield


@bug("upkeep", change=_iceberg, seeds=40)
def commit_on_top_of_a_newer_snapshot() -> Iterator[None]:
    """The catalog takes what was decided on an older snapshot, as PyIceberg's retries make it."""
    original = MemoryTableCatalog.commit

    async def commit(self: MemoryTableCatalog, table: Any, change: Any) -> Any:
        now = await MemoryTableCatalog.load(self, table.name)
        return await original(
            self, table if now is None else replace(table, files=now.files, handle=now.handle), change
        )

    with patch.object(MemoryTableCatalog, "commit", commit):
        yield
