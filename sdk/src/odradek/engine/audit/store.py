"""The audit of a whole store: what `odradek audit` and the tests call."""

from __future__ import annotations

from odradek.engine.audit.audit import Audit
from odradek.engine.audit.bytes import ByteAudit
from odradek.engine.audit.decisions import AuditReport
from odradek.engine.audit.repair import Repair
from odradek.engine.engine import Engine


async def audit_store(
    engine: Engine, *, fast: bool = False, strict: bool = False, repair: bool = False, skip_damaged: bool = False
) -> AuditReport:
    """Audit the store of an engine.

    Args:
        fast: check existence and lengths only, not every byte.
        strict: also report what the next maintenance would remove; for a store at rest.
        repair: repair what is provably safe to repair, then audit again. Without it nothing is written.
        skip_damaged: a repair also gives up the ranges of offsets that cannot be read.

    Raises StoreError, KafkaError, FormatError: the store cannot be read, or not repaired.
    """
    audit = Audit(engine, ByteAudit(engine.objects, engine.wal, engine.pieces, fast=fast), strict=strict)
    return await (Repair(engine, audit, skip_damaged=skip_damaged).run() if repair else audit.run())
