"""Repair of those findings of an audit that are provably safe to repair. Missing data is never invented.

    deletions    finished as maintenance does
    orphans      under each partition's lease (orphans.py)
    uploads      swept below the floor (sweep.py)
    leftovers    objects of topics that the catalog does not contain: see Audit.leftover_topics
    damage       only if asked for: ranges that cannot be read are skipped (damaged_ranges.py)
    clocks       spill floors that a clock far ahead has raised are lowered (floors.py)

Maintenance does the same steps, so a repair may be cut short, repeated, and run beside a service on AWS.
"""

from __future__ import annotations

from odradek.engine.audit.audit import TOPICS_PREFIX, Audit
from odradek.engine.audit.damaged_ranges import DamagedRanges
from odradek.engine.audit.decisions import AuditReport, FindingKind
from odradek.engine.audit.floors import lower_spill_floor
from odradek.engine.catalog.topic_configs import TopicConfig
from odradek.engine.engine import Engine
from odradek.engine.maintenance.maintenance import HeldPartition, MaintenanceReport
from odradek.engine.partition.maintenance_lease import LeaseLost
from odradek.errors import FormatError, KafkaError, StoreError
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId


class Repair:
    """Removes what should not be there, and audits again."""

    def __init__(self, engine: Engine, audit: Audit, *, skip_damaged: bool = False) -> None:
        self._audit = audit
        self._damaged_ranges = DamagedRanges(engine) if skip_damaged else None
        self._tools = engine.tools
        self._index = engine.index
        self._maintenance = engine.maintenance
        self._orphans = engine.orphans
        self._sweep = engine.sweep
        self._topics = engine.topics
        self._leases = engine.leases
        self._settings = engine.settings

    async def run(self) -> AuditReport:
        """Audit, repair, and audit again; return the last report with the repairs. Raises StoreError, KafkaError."""
        found = await self._audit.run()
        done = MaintenanceReport()
        await self._maintenance.finish_deletions(done)
        ahead = {finding.place for finding in found.findings if finding.kind is FindingKind.CLOCK}
        damaged = {each.place for each in found.findings if each.kind in (FindingKind.MISSING, FindingKind.DAMAGED)}
        skipped: list[str] = []
        orphaned = {finding.place for finding in found.findings if finding.kind is FindingKind.ORPHAN}
        for topic in await self._topics.list():
            for number in range(topic.partition_count):
                if found.pending["orphans"] or f"{topic.name}-{number}" in orphaned:
                    await self._collect_orphans(topic, number, done)
                if f"{topic.name}-{number}" in damaged:
                    skipped += await self._skip_damaged(topic, number, done)
                if f"{topic.name}-{number}" in ahead:
                    done.done["floors_lowered"] += await lower_spill_floor(
                        self._tools, self._index, PartitionId(topic.topic_id, number)
                    )
        await self._follow(done)
        try:
            await self._sweep.run(done.done)
        except FormatError:
            pass  # what a damaged partition needs cannot be told: nothing was deleted; the audit names the damage
        for topic_id in await self._audit.leftover_topics():
            done.done["objects_removed"] += await self._maintenance.delete_prefix(f"{TOPICS_PREFIX}{topic_id}/")
        report = await self._audit.run()
        report.repaired += done.done
        report.skipped += skipped
        return report

    async def _skip_damaged(self, topic: Topic, number: int, done: MaintenanceReport) -> list[str]:
        """Skip what cannot be read of a partition, if that was asked for; return the ranges."""
        if self._damaged_ranges is None:
            return []
        held = await self._take(topic, number, done)
        if held is None:
            return []
        try:
            ranges = await self._damaged_ranges.skip(held)
        except (LeaseLost, FormatError):
            held.left_clean = False
            return []  # the audit that follows says what is left, and why
        finally:
            await self._leases.release(held.lease, clean=held.left_clean)
        done.done["ranges_skipped"] += len(ranges)
        return [f"{topic.name}-{number} [{first}, {end})" for first, end in ranges]

    async def _take(self, topic: Topic, number: int, done: MaintenanceReport) -> HeldPartition | None:
        """Take the lease of a partition; None: a maintainer is at work."""
        partition = PartitionId(topic.topic_id, number)
        lease = await self._leases.take(partition)
        if lease is None:
            return None
        config = TopicConfig.of(topic, self._settings)
        return HeldPartition(topic, config, partition, lease, done, self._maintenance.tables)

    async def _follow(self, done: MaintenanceReport) -> None:
        """Bring Iceberg tables up to their rows, where this process has a catalog; their states say what fails."""
        for topic in await self._maintenance.tables.due(await self._topics.list()):
            try:
                await self._maintenance.tables.follow(topic, done.done)
            except (StoreError, FormatError, KafkaError) as error:
                done.failures.append(f"the Iceberg table of {topic.name}: {error}")

    async def _collect_orphans(self, topic: Topic, number: int, done: MaintenanceReport) -> None:
        held = await self._take(topic, number, done)
        if held is None:
            return  # a maintainer is at work: it leaves the partition clean, or the next one does
        clean = False
        try:
            await self._orphans.collect(held)
            clean = held.left_clean
        except (LeaseLost, FormatError):
            return  # as in maintenance: the audit that follows says what is left, and why
        finally:
            await self._leases.release(held.lease, clean=clean)
