"""Leader epochs: where they end, and which of them a batch says it was written under."""

from __future__ import annotations

from odradek.engine.engine import Engine
from odradek.errors import ErrorCode
from odradek.format.batch_header import iter_headers
from odradek.model.log import EpochEndPartition, FetchPartition

from tests.simulation.audit.truth import TrueLog
from tests.simulation.books.ledger import Ledger
from tests.simulation.books.notes import LeaderEpoch


async def audit_epochs(engine: Engine, ledger: Ledger, pk: str, log: TrueLog) -> list[str]:
    """Compare the engine's epochs with their true beginnings."""
    began = ledger.epochs.get(pk)
    name = ledger.topic_names[log.partition.topic_id]
    if not began:
        return []
    problems = []
    for epoch in range(began[-1].epoch + 1):
        true_end = next((leader_epoch.start for leader_epoch in began if leader_epoch.epoch > epoch), len(log.records))
        [result] = await engine.epoch_end_offsets([EpochEndPartition(name, log.partition.partition, epoch)])
        if result.error is not ErrorCode.NONE:
            problems.append(f"{log.partition}: the end of epoch {epoch} is not answered: {result.error.name}")
        elif result.end_offset > log.log_start and result.end_offset != true_end:
            problems.append(f"{log.partition}: epoch {epoch} is said to end at {result.end_offset}, not {true_end}")
        elif result.end_offset > log.log_start and epoch < began[-1].epoch:
            wrote = max((leader_epoch.epoch for leader_epoch in began if leader_epoch.start < true_end), default=0)
            if result.leader_epoch != wrote:
                said = f"the last epoch up to {epoch} that wrote anything is said to be {result.leader_epoch}"
                problems.append(f"{log.partition}: {said}, not {wrote}")
    return problems + await _batches(engine, began, name, log)


async def _batches(engine: Engine, began: list[LeaderEpoch], name: str, log: TrueLog) -> list[str]:
    offset = log.log_start
    while True:
        [result] = await engine.fetch([FetchPartition(name, log.partition.partition, offset)])
        if result.error is not ErrorCode.NONE:
            return [f"{log.partition}: cannot be fetched from {offset}: {result.error.name} {result.message}"]
        before = offset
        for _, header in iter_headers(b"".join(result.records)):
            true = max(
                (leader_epoch.epoch for leader_epoch in began if leader_epoch.start <= header.base_offset), default=0
            )
            if header.partition_leader_epoch != true:
                return [f"{log.partition}: {header.base_offset} says epoch {header.partition_leader_epoch}, not {true}"]
            offset = header.next_offset
        if offset == before:
            return []
