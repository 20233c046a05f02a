"""Transactions: all or nothing, at one moment, over partitions and offsets; exactly once from input to output.

G0, G1c     transactions that write one after the other in one log and the other way round in another, or that read
            what they themselves made possible: a cycle of write and read dependencies
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

from odradek.model.topic_partition import PartitionId

from tests.simulation.audit.truth import TrueLog, TrueRecord
from tests.simulation.books.history import History, Transaction
from tests.simulation.books.items import own_key
from tests.simulation.books.ledger import Ledger

Logs = Mapping[PartitionId, TrueLog]


def audit_transactions(ledger: Ledger, history: History, logs: Logs) -> Iterator[str]:
    """Everything that is wrong."""
    if not history.transactions:
        return
    where = {(partition, record.identity): record for partition, log in logs.items() for record in log.records}
    for one in history.transactions:
        yield from _atomic(one, ledger, where)
    yield from _exactly_once(ledger, history, logs, where)
    yield from _cycles(history, logs, where)


def _atomic(one: Transaction, ledger: Ledger, where: Mapping[tuple[PartitionId, bytes], TrueRecord]) -> Iterator[str]:
    written = [where.get(record_key) for record_key in one.wrote]
    present = [record for record in written if record is not None]
    calls = {record.call for record in present}
    if one.outcome == "aborted" and present:
        yield f"transaction {one.name} was aborted, and {present[0].identity!r} is in the log"
    if present and len(present) < len(written):
        yield f"transaction {one.name} is there in part: {len(present)} of {len(written)} records"
    if one.outcome == "committed" and len(present) < len(written):
        yield f"transaction {one.name} was committed, and {len(written) - len(present)} records are missing"
    if len(calls) > 1:
        yield f"transaction {one.name} became visible bit by bit"
    if one.commits is None:
        return
    partition, offset = one.commits
    commits = ledger.commits.get(own_key(one.group, partition), [])
    together = any(commit.call in calls and commit.offset == offset for commit in commits)
    if present and not together:
        yield f"transaction {one.name} is in the log without its offset {offset} of {partition}"


def _exactly_once(
    ledger: Ledger, history: History, logs: Logs, where: Mapping[tuple[PartitionId, bytes], TrueRecord]
) -> Iterator[str]:
    """Each input below the group's commit has one output, each above it none."""
    outputs: dict[tuple[str, PartitionId, int], int] = defaultdict(int)
    inputs: set[tuple[str, PartitionId]] = set()
    for one in history.transactions:
        is_there = any(record_key in where for record_key in one.wrote)
        for partition, offset in one.read:
            outputs[one.group, partition, offset] += is_there
            inputs.add((one.group, partition))
    for group, partition in sorted(inputs):
        commits = ledger.commits.get(own_key(group, partition), [])
        end = commits[-1].offset if commits else 0
        for record in logs[partition].records:
            count = outputs[group, partition, record.offset]
            if count != (record.offset < end) and record.offset >= logs[partition].log_start:
                yield f"group {group}: {record.offset} of {partition} has {count} outputs, the commit is at {end}"
                break


def _cycles(history: History, logs: Logs, where: Mapping[tuple[PartitionId, bytes], TrueRecord]) -> Iterator[str]:
    writer = {record_key: one.name for one in history.transactions for record_key in one.wrote if record_key in where}
    graph: dict[str, set[str]] = defaultdict(set)  # a transaction to those before it
    for partition, log in logs.items():
        previous = None
        for record in log.records:
            name = writer.get((partition, record.identity))
            if name is not None and previous is not None and name != previous:
                graph[name].add(previous)  # ww
            previous = name or previous
    for one in history.transactions:
        for partition, offset in one.read:
            if partition in logs and offset < len(logs[partition].records):
                maker = writer.get((partition, logs[partition].records[offset].identity))
                if maker is not None and maker != one.name and any(record_key in where for record_key in one.wrote):
                    graph[one.name].add(maker)  # wr
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        yield f"cycle of transactions (G0 or G1c): {' -> '.join(error.args[1])}"
