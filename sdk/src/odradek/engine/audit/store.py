"""The audit of a whole store: what `odradek audit` and the tests call."""

from __future__ import annotations

from odradek.engine.audit.audit import Audit
from odradek.engine.audit.bytes import ByteAudit
from odradek.engine.audit.decisions import AuditReport
from odradek.engine.audit.floors import lower_spill_floor
from odradek.engine.audit.repair import Repair
from odradek.engine.engine import Engine
from odradek.engine.maintenance.wal_uploads import WalUploads
from odradek.model.topic_partition import PartitionId
from odradek.ports.tables import Tables


async def audit_store(
    engine: Engine, tables: Tables, *, fast: bool = False, strict: bool = False, repair: bool = False
) -> AuditReport:
    """Audit the store of an engine.

    Args:
        tables: those of the engine.
        fast: look at existence and lengths only, not at every byte.
        strict: nothing may be left for the next maintenance to remove; for a store at rest.
        repair: mend what is provably safe to mend, then audit again. Without it nothing is written.

    Raises StoreError, KafkaError, FormatError: the store cannot be read, or not repaired.
    """
    audit = Audit(
        tables.catalog,
        engine.index,
        engine.objects,
        engine.topics,
        engine.leases,
        engine.sweep,
        WalUploads(tables.log, engine.objects, engine.clock, engine.rng),
        ByteAudit(engine.objects, engine.wal, engine.pieces, fast=fast),
        engine.clock,
        engine.rng,
        engine.settings,
        strict=strict,
    )
    if not repair:
        return await audit.run()

    async def lower(partition: PartitionId) -> bool:
        return await lower_spill_floor(tables.log, engine.index, partition, engine.clock, engine.rng)

    fixes = Repair(
        audit, engine.maintenance, engine.orphans, engine.sweep, engine.topics, engine.leases, engine.settings, lower
    )
    return await fixes.run()
