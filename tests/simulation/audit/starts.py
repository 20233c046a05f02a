"""Every rise of a log start had a reason: somebody asked for it, or the topic's retention did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from odradek.format.tail_entry import decode_tail_entry
from odradek.model.topic_partition import PartitionId

from tests.simulation.audit.truth import TrueLog
from tests.simulation.books.history import History
from tests.simulation.books.items import partition_of
from tests.simulation.books.ledger import Ledger
from tests.simulation.books.notes import StartMove
from tests.simulation.world import SKEWS_MS

_CLOCKS_APART_MS = max(SKEWS_MS) - min(SKEWS_MS)


def audit_starts(ledger: Ledger, history: History, logs: Mapping[PartitionId, TrueLog]) -> Iterator[str]:
    """Find records that were dropped and should not have been."""
    for move in ledger.starts:
        partition = partition_of(move.pk)
        if move.start <= history.deletions_asked.get(partition, 0):
            continue
        reason = _retention_forbids(move, ledger, logs[partition])
        if reason:
            yield f"{partition}: the log start rose from {move.before} to {move.start}, but {reason} (by {move.caller})"


def _retention_forbids(move: StartMove, ledger: Ledger, log: TrueLog) -> str:
    """Why no configuration that the topic ever had allows it; empty where one does."""
    if move.start > move.tail_base:
        return "that is within the tail"
    reasons = []
    for _, config in ledger.configs[log.partition.topic_id]:
        reason = _config_forbids(config, move, ledger, log)
        if not reason:
            return ""
        reasons.append(reason)
    return reasons[-1] if reasons else "nothing asked for it"


def _config_forbids(config: Mapping[str, str], move: StartMove, ledger: Ledger, log: TrueLog) -> str:
    if "delete" not in config.get("cleanup.policy", "delete"):
        return "the topic is only compacted"
    retention_ms = int(config.get("retention.ms", "604800000"))
    # Timestamps are told by the producers, and the age by the clock of whoever deleted.
    ahead_ms = max(0, ledger.shares.skews_ms.get(move.caller, 0))
    is_clock_right = move.caller not in ledger.shares.jumped
    oldest_kept_ms = move.at_ms - retention_ms + (ahead_ms if is_clock_right else _CLOCKS_APART_MS)
    too_young = [r.offset for r in log.records[move.before : move.start] if r.timestamp_ms >= oldest_kept_ms]
    if retention_ms >= 0 and not too_young:
        return ""
    retention_bytes = int(config.get("retention.bytes", "-1"))
    # What came while retention was at work counts too: a bound from above on what it saw.
    entered = (entry.packed for entry in ledger.truth[move.pk][: move.entries] if entry.base_offset >= move.start)
    kept = sum(decode_tail_entry(packed).length for packed in entered)
    if 0 <= retention_bytes <= kept:
        return ""
    return f"{too_young[:3]} are younger than retention.ms={retention_ms}, {kept} bytes of {retention_bytes} are kept"
