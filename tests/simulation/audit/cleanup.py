"""The end of a run: one clean maintenance after everything has come to rest leaves nothing that nobody needs.

Not counted: what arrived so late that its cleaning was over by then (it costs storage, never data): a WAL item later
than the hours that sweeps look at again; objects, items and the row of a deleted topic after it had been looked at for
the last time (a row has no heads then: nothing can be written to it).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from unittest.mock import patch
from uuid import UUID

from odradek.engine.audit.store import audit_store
from odradek.engine.iceberg.decisions import files_of
from odradek.engine.maintenance import orphans
from odradek.engine.maintenance.maintenance import MaintenancePlan, MaintenanceReport
from odradek.engine.share.items import letters_writer, share_partition
from odradek.errors import FormatError
from odradek.format.item_keys import BATCHES_PK
from odradek.format.maintenance_task import TaskKind
from odradek.format.object_id import object_id_ms
from odradek.format.object_keys import wal_key
from odradek.format.tail_entry import decode_tail_entry

from tests.simulation.actors.maintainers import run_maintenance
from tests.simulation.books.items import partition_of
from tests.simulation.world import Process, World

_HOUR_MS = 3_600_000
_WEEK_MS = 7 * 24 * _HOUR_MS
_PASSES_MAX = 4
_SLACK_S = 200.0  # clocks that are ahead, leases of the dead


async def clean_up(world: World) -> list[str]:
    """Run maintenance until there is nothing left to do; what is wrong after it."""
    await asyncio.sleep(world.settings.sweep_horizon_ms / 1000 + _SLACK_S)
    janitor = world.process("janitor", 0)
    started_ms = world.clock.now_ms()
    failures: list[str] = []
    planned: list[str] = []
    for number in range(_PASSES_MAX):  # a merge may part a row, and one of the parts has expired
        with patch.object(orphans, "_SCAN_EVERY_EPOCHS", 1):
            failures += await run_maintenance(janitor)
        planned = await _still_planned(janitor)
        if number and not planned:
            break
    failures += _too_long_active(world, started_ms)
    failures += _too_large(world)
    failures += planned
    await _forget_topics(janitor)
    try:
        await janitor.engine.sweep.run(Counter())
    except FormatError as damaged:
        failures.append(f"the sweep: {damaged}")
    report = await audit_store(janitor.engine, fast=True)
    world.work["late_creations_of_deleted_topics"] += len(world.ledger.revived)
    late = (*world.ledger.revived, *(f"topics/{topic_id}/" for topic_id in world.ledger.late_topics))
    for finding in report.findings:
        if not finding.place.startswith(late):
            failures.append(f"the audit finds {finding.kind} {finding.place}: {finding.detail}")
    failures += _tables_unlike_rows(world)
    problems = [f"after maintenance in a calm world: {failure}" for failure in failures]
    return problems + list(_left(world))


async def _forget_topics(janitor: Process) -> None:
    """The second look at deleted topics, hours after the first."""
    await asyncio.sleep(janitor.engine.settings.sweep_recheck_hours * 3_600 + _SLACK_S)
    report = MaintenanceReport()
    await janitor.engine.maintenance.finish_deletions(report)
    assert not report.failures, report.failures


def _too_long_active(world: World, now_ms: int) -> Iterator[str]:
    """Tails of quiet partitions that should have been rolled: what is in them is never dropped nor compacted."""
    for pk, head in world.ledger.heads.items():
        topic_id = partition_of(pk).topic_id
        if topic_id not in world.ledger.live_topics or not head["t"]:
            continue
        config = world.ledger.configs[topic_id][-1][1]
        entries = [decode_tail_entry(packed) for packed in head["t"]]  # type: ignore[arg-type,union-attr]
        newest_ms = max(entry.max_timestamp_ms for entry in entries) + _SLACK_S * 1000
        is_deleting = "delete" in config.get("cleanup.policy", "delete")
        retention_ms = int(config.get("retention.ms", -1)) if is_deleting else -1
        if now_ms - min(entry.commit_ms for entry in entries) > int(config.get("segment.ms", _WEEK_MS)):
            yield f"the tail of {pk} is older than segment.ms"
        if 0 <= retention_ms < now_ms - newest_ms:
            yield f"the tail of {pk} is older than retention.ms"


def _too_large(world: World) -> Iterator[str]:
    """Partitions whose oldest row is there though what is newer suffices for retention.bytes.

    Rows past the tail's base are not meant: a spill that was cut short left them, and their entries are in the tail.
    """
    for pk, head in world.ledger.heads.items():
        if partition_of(pk).topic_id not in world.ledger.live_topics:
            continue
        config = world.ledger.configs[partition_of(pk).topic_id][-1][1]
        most = int(config.get("retention.bytes", -1)) if config.get("cleanup.policy", "delete") != "compact" else -1
        rows = [row for row in world.ledger.live_rows(pk) if head["ls"] < row.end_offset <= head["tb"]]  # type: ignore[operator]
        newer = sum(decode_tail_entry(packed).length for packed in head["t"])  # type: ignore[arg-type,union-attr]
        newer += sum(row.size_bytes for row in rows[1:])
        if rows and 0 <= most <= newer:
            yield f"{pk} has {newer} bytes after its oldest row, and retention.bytes={most}"


async def _still_planned(janitor: Process) -> list[str]:
    """Partitions at rest that a plan names all the same: each would be a task with every plan, for ever."""
    plan = MaintenancePlan()
    await janitor.engine.maintenance.plan(plan)
    tasks = [*plan.of_kind(TaskKind.PARTITION), *plan.of_kind(TaskKind.TABLE)]
    return [*plan.failures, *(f"{task} has nothing to do and is planned" for task in tasks)]


def _tables_unlike_rows(world: World) -> Iterator[str]:
    """Iceberg tables that have other files than the rows of their topic, or whose topic is gone."""
    if world.lake is None:
        return
    rows: dict[UUID, set[str]] = {topic_id: set() for topic_id in world.ledger.live_topics}
    for pk, head in world.ledger.heads.items():
        partition = partition_of(pk)
        if partition.topic_id in rows:
            live = [row for row in world.ledger.live_rows(pk) if row.end_offset > head["ls"]]  # type: ignore[operator]
            rows[partition.topic_id] |= files_of(partition, live).keys()
    files_by_topic: dict[UUID, frozenset[str]] = {}
    for name, table in world.lake.tables.items():
        assert table.topic_id is not None
        files_by_topic[table.topic_id] = table.snapshots[-1].files if table.snapshots else frozenset()
        if table.topic_id not in rows and table.topic_id not in world.ledger.late_topics:
            yield f"the Iceberg table {name} is of a topic that is gone"
    for topic_id, files in rows.items():
        table_files = files_by_topic.get(topic_id, frozenset())
        world.work["files_in_tables"] += len(table_files)
        if table_files != files:
            lacks, has = sorted(files - table_files), sorted(table_files - files)
            yield f"the Iceberg table of {topic_id} lacks {lacks} and has {has}"


def _left(world: World) -> Iterator[str]:
    """Uploads and segments that nothing refers to; windows of share groups, and what numbers their dead letters."""
    ledger = world.ledger
    for key in ledger.shares.windows:
        if share_partition(key.sk).topic_id not in ledger.live_topics:
            yield f"orphan: {key.sk} of a share group, whose topic has been deleted"
    writers = {letters_writer(incarnation) for incarnation in ledger.shares.incarnations.values()}
    for writer in world.tables.catalog._partitions.get(BATCHES_PK, {}):
        if writer.startswith("share/") and writer not in writers:
            yield f"orphan: nothing refers to {writer}, which numbers dead letters"
    objects, items = ledger.referenced()
    for key in world.objects.keys():  # noqa: SIM118
        if key in objects:
            continue
        if key.startswith("topics/") and UUID(key.split("/")[1]) in ledger.late_topics:
            world.work["late_objects_of_deleted_topics"] += 1
        elif _is_old(world, key):
            yield f"orphan: nothing refers to {key}"
    recheck_ms = world.settings.sweep_recheck_hours * _HOUR_MS
    for object_id, put_ms in ledger.live_items.items():
        if object_id not in items and _is_old(world, wal_key(object_id)):
            if put_ms - object_id_ms(object_id) < recheck_ms:
                yield f"orphan: nothing refers to the WAL item {object_id.hex()}"
            else:
                world.work["late_wal_items"] += 1


def _is_old(world: World, key: str) -> bool:
    """Return True if the object was made before the horizon. Segments are collected at any age."""
    if not key.startswith("wal/"):
        return True
    return object_id_ms(bytes.fromhex(key.rsplit("/", 1)[1])) < world.clock.now_ms() - world.settings.sweep_horizon_ms
