"""The order of keys of a topic that grows: what our producers wrote once, groups process once in order, or again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from odradek.model.topic_partition import PartitionId

from tests.simulation.audit.truth import TrueLog
from tests.simulation.books.history import History


def audit_keys(history: History, logs: Mapping[PartitionId, TrueLog]) -> Iterator[str]:
    """Everything that is wrong."""
    if not history.keyed:
        return
    where: dict[bytes, list[tuple[int, int]]] = {}
    for partition, log in logs.items():
        for record in log.records:
            where.setdefault(record.identity, []).append((partition.partition, record.offset))
    sends = {send.identity: send for send in history.keyed}
    for name, send in sends.items():
        places = where.get(name, [])
        if send.place is None:
            yield f"keyed: {name!r} has no outcome"
        elif len(places) != 1 or (send.place[1] >= 0 and places[0] != send.place):
            yield f"keyed: {name!r} was acknowledged at {send.place} and is at {places}"
    for group_id, processed in history.order.items():
        newest: dict[bytes, int] = {}
        for partition, offset in processed:
            send = sends[logs[partition].records[offset].identity]
            if send.number != newest.get(send.key, -1) + 1:
                yield (
                    f"order of a key: group {group_id} met {send.identity!r}, at {offset} of {partition.partition}, "
                    f"after number {newest.get(send.key, -1)}"
                )
            newest[send.key] = send.number
