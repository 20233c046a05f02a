"""Share groups at the end of a run: what workers were given is what was written for them; nothing is lost, or twice.

* a delivery (offset, count) was told to the one member that the window named, and to nobody else
* what was accepted is done and was never delivered again; books/share_book.py sees to it that done stays done
* every record of the queue that is in the log still was accepted or is a dead letter; the duplicate check of
  history.py sees to it that a dead letter is there once
* what was rejected is a dead letter
* what was done before anybody had it, compaction had taken
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from odradek.engine.share.items import share_key, share_partition
from odradek.engine.share.window import RecordState
from odradek.model.topic_partition import PartitionId

from tests.simulation.audit.truth import TrueLog
from tests.simulation.books.history import History
from tests.simulation.books.ledger import Ledger


def audit_shares(ledger: Ledger, history: History, logs: Mapping[PartitionId, TrueLog]) -> Iterator[str]:
    """Everything that is wrong."""
    letters = {
        record.identity
        for partition, log in logs.items()
        if partition.topic_id in history.server_written
        for record in log.records
    }
    for group_partition, deliveries in history.deliveries.items():
        group_id, partition = group_partition
        key = share_key(group_id, partition)
        written, window = ledger.shares.deliveries[key], ledger.shares.windows.get(key)
        member_by_delivery: dict[tuple[int, int], str] = {}
        for offset, count, member_id, name in deliveries:
            if group_partition[1] in logs and logs[partition].records[offset].identity != name:
                yield f"{member_id} was given {name!r} as {offset} of {partition}, which is another record"
            if member_id not in written[offset, count]:
                yield f"{member_id} was given {offset} of {partition} (delivery {count}), which was not written for it"
            other = member_by_delivery.setdefault((offset, count), member_id)
            if other != member_id and len(written[offset, count]) < 2:
                yield f"delivery {count} of {offset} of {partition} went to {other} and to {member_id}"
        log = logs.get(partition)
        if log is None or window is None:
            continue
        done = set(range(window.start_offset)) | {
            offset for run in window.runs if run.state is RecordState.DONE for offset in range(run.start, run.end)
        }
        accepted = history.accepted[group_partition]
        if not accepted <= done:
            yield f"{sorted(accepted - done)[:5]} of {partition} were accepted and are not done"
        rejected = (
            set() if key in ledger.shares.begun_anew else history.rejected[group_partition]
        )  # then it may have been taken
        for record in log.records:
            if record.offset in rejected and log.must_survive(record) and record.identity not in letters:
                yield f"{record.offset} of {partition} was rejected, and is no dead letter"
                break
        delivered = {offset for offset, _, _, _ in deliveries}
        for record in log.records:
            if record.offset not in done or not log.must_survive(record):
                continue
            if record.offset not in delivered and record.identity not in letters:
                yield f"{record.offset} of {partition} is done; nobody was given it and it is no dead letter"
                break
    for key, offsets in ledger.shares.undelivered.items():
        log = logs.get(share_partition(key.sk))
        for offset in sorted(offsets):
            if log is None:
                break
            if offset >= len(log.records):
                yield f"{offset} of {key.sk} is done, and the log ends before it"
                break
            if not log.may_be_compacted(log.records[offset]):
                yield f"{offset} of {key.sk} was done before anybody had it"
                break
