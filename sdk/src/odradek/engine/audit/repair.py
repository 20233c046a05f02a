"""Repair: of what an audit finds, that which is provably safe to mend. Nothing that is missing is made up.

    deletions    finished as maintenance does
    orphans      under each partition's lease (orphans.py)
    uploads      swept below the floor (sweep.py)
    leftovers    objects of topics that the catalog does not know: see Audit.leftover_topics
    clocks       spill floors that a clock far ahead has raised are lowered (floors.py)

Each step is what maintenance does too, so a repair may be cut short, repeated, and run beside a service on AWS.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from odradek.engine.audit.audit import TOPICS_PREFIX, Audit
from odradek.engine.audit.decisions import AuditReport, FindingKind
from odradek.engine.catalog.topic_configs import TopicConfig
from odradek.engine.catalog.topics import Topics
from odradek.engine.maintenance.maintenance import HeldPartition, Maintenance, MaintenanceReport
from odradek.engine.maintenance.orphans import Orphans
from odradek.engine.maintenance.sweep import Sweep
from odradek.engine.partition.maintenance_lease import LeaseLost, MaintenanceLeases
from odradek.errors import FormatError
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId
from odradek.settings import Settings


class Repair:
    """Removes what should not be there, and audits again."""

    def __init__(
        self,
        audit: Audit,
        maintenance: Maintenance,
        orphans: Orphans,
        sweep: Sweep,
        topics: Topics,
        leases: MaintenanceLeases,
        settings: Settings,
        lower_floor: Callable[[PartitionId], Awaitable[bool]],
    ) -> None:
        self._audit = audit
        self._lower_floor = lower_floor
        self._maintenance = maintenance
        self._orphans = orphans
        self._sweep = sweep
        self._topics = topics
        self._leases = leases
        self._settings = settings

    async def run(self) -> AuditReport:
        """Audit, repair, audit: the last report, with what was repaired. Raises StoreError, KafkaError."""
        found = await self._audit.run()
        done = MaintenanceReport()
        await self._maintenance.finish_deletions(done)
        ahead = {finding.place for finding in found.findings if finding.kind is FindingKind.CLOCK}
        orphaned = {finding.place for finding in found.findings if finding.kind is FindingKind.ORPHAN}
        for topic in await self._topics.list():
            for number in range(topic.partition_count):
                if found.pending["orphans"] or f"{topic.name}-{number}" in orphaned:
                    await self._collect_orphans(topic, number, done)
                if f"{topic.name}-{number}" in ahead:
                    done.done["floors_lowered"] += await self._lower_floor(PartitionId(topic.topic_id, number))
        try:
            await self._sweep.run(done.done)
        except FormatError:
            pass  # what a damaged partition needs cannot be told: nothing was deleted; the audit names the damage
        for topic_id in await self._audit.leftover_topics():
            done.done["objects_removed"] += await self._maintenance.delete_prefix(f"{TOPICS_PREFIX}{topic_id}/")
        report = await self._audit.run()
        report.repaired += done.done
        return report

    async def _collect_orphans(self, topic: Topic, number: int, done: MaintenanceReport) -> None:
        partition = PartitionId(topic.topic_id, number)
        lease = await self._leases.take(partition)
        if lease is None:
            return  # a maintainer is at work: it leaves the partition clean, or the next one does
        held = HeldPartition(topic, TopicConfig.of(topic, self._settings), partition, lease, done)
        clean = False
        try:
            await self._orphans.collect(held)
            clean = True
        except (LeaseLost, FormatError):
            return  # as in maintenance: the audit that follows says what is left, and why
        finally:
            await self._leases.release(held.lease, clean=clean)
