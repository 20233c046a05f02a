"""Groups at the end of a run: what was committed had been processed, and the group got to the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from odradek.model.topic_partition import PartitionId

from tests.simulation.audit.truth import TrueLog
from tests.simulation.books.history import History
from tests.simulation.books.items import own_partition, partition_of
from tests.simulation.books.ledger import Ledger


def audit_groups(ledger: Ledger, history: History, logs: Mapping[PartitionId, TrueLog]) -> Iterator[str]:
    """At least once: no offset below a commit was left out."""
    for key, commits in ledger.commits.items():
        group_id, partition = key.pk.removeprefix("g#"), own_partition(key)
        log = logs.get(partition)
        group_partition = (group_id, partition)
        if log is None or not commits or group_partition not in history.processed:
            continue
        done = history.processed[group_partition]
        skipped = history.skipped[group_partition]
        for record in log.records[: commits[-1].offset]:
            if record.offset in done or any(start <= record.offset < end for start, end in skipped):
                continue
            if not log.was_compacted or log.must_survive(record):
                yield f"group {group_id}: {record.offset} of {partition} is below the commit and was not processed"
                break


def lagging(ledger: Ledger, group_id: str, topic_names: set[str]) -> list[str]:
    """Partitions of the topics of which no commit has been at the end of the log."""
    committed = {
        own_partition(key): max(commit.offset for commit in commits)
        for key, commits in ledger.commits.items()
        if key.pk == f"g#{group_id}" and commits
    }
    return [
        pk
        for pk, head in ledger.heads.items()
        if ledger.topic_names.get(partition_of(pk).topic_id) in topic_names
        and committed.get(partition_of(pk), 0) != head["no"]
    ]
