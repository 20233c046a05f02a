"""Results of producers and consumers, against the true logs: the checks of Jepsen's Kafka workload.

lost write, inconsistent offset, duplicate, aborted read, non-monotonic send; inconsistent, non-monotonic and skipped
poll, unseen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Set

from odradek.model.topic_partition import PartitionId

from tests.simulation.audit.truth import TrueLog
from tests.simulation.books.history import History, Poll

Logs = Mapping[PartitionId, TrueLog]


def audit_history(logs: Logs, history: History) -> Iterator[str]:
    """Everything that is wrong."""
    yield from history.problems
    where: dict[PartitionId, dict[bytes, int]] = {}
    for partition, log in logs.items():
        offsets = where[partition] = {}
        for record in log.records:
            if record.identity in offsets and partition.topic_id not in history.written_again:
                both = f"{offsets[record.identity]} and {record.offset} of {partition}"
                yield f"duplicate: {record.identity!r} is at {both}"
            offsets[record.identity] = record.offset
    sent_by_actors = {p: offsets for p, offsets in where.items() if p.topic_id not in history.server_written}
    returned = {partition for partition, log in logs.items() if log.has_returned}
    yield from _sends(sent_by_actors, history, returned)
    for poll in history.polls:
        log = logs.get(poll.partition)
        if log is not None:
            yield from _poll(poll, log)


def _sends(
    where: Mapping[PartitionId, Mapping[bytes, int]], history: History, returned: Set[PartitionId]
) -> Iterator[str]:
    ordered: dict[tuple[PartitionId, str], list[tuple[int, int]]] = defaultdict(list)
    sent: dict[PartitionId, set[bytes]] = defaultdict(set)
    for send in history.sends:
        sent[send.partition].add(send.identity)
        offset = where.get(send.partition, {}).get(send.identity)
        if send.outcome == "acked" and offset is None and send.partition not in returned:
            yield f"lost write: {send.identity!r} acknowledged at {send.offset} never entered the log"
        if send.offset is not None and offset is not None and send.offset != offset:
            yield f"inconsistent offset: {send.identity!r} acknowledged at {send.offset} is at {offset}"
        if send.outcome == "failed" and offset is not None:
            yield f"aborted read: {send.identity!r} failed but is at {offset}"
        if send.producer and offset is not None:
            ordered[send.partition, send.producer].append((send.sequence, offset))
    for (partition, producer), offsets in ordered.items():
        offsets.sort()
        if [offset for _, offset in offsets] != sorted(offset for _, offset in offsets):
            yield f"non-monotonic sends of {producer} to {partition}: {offsets}"
    for partition, places_of in where.items():
        for name, offset in places_of.items():
            if name not in sent[partition]:
                yield f"{name!r} at {offset} of {partition} was never sent there"


def _poll(poll: Poll, log: TrueLog) -> Iterator[str]:
    poller = f"{poll.consumer} of {poll.partition}"
    expected = 0
    for offset, name in poll.records:
        if offset >= len(log.records) or log.records[offset].identity != name:
            true = log.records[offset].identity if offset < len(log.records) else None
            yield f"inconsistent offsets: {poller} read {name!r} at {offset}, the log has {true!r}"
            return
        if offset < expected:
            yield f"non-monotonic poll: {poller} read {offset} where {expected} comes next"
        for skipped in log.records[expected:offset]:
            was_sent_past = any(start <= skipped.offset < end for start, end in poll.resets)
            if not was_sent_past and (not log.was_compacted or log.must_survive(skipped)):
                yield f"skipped poll: {poller} read {offset} and not {skipped.offset}"
                break
        expected = offset + 1
    if poll.finished and not log.is_gone:
        unseen = [record.offset for record in log.records[expected:] if log.must_survive(record)]
        if unseen:
            yield f"unseen: {poller} ended at {expected} without {unseen[:5]}"
