"""Endpoint information: which member has the state of which partitions, for interactive queries. Pure.

The *endpoint information epoch* tells a member whether what it knows is current. It is a digest of the information, so
nothing is stored and no write is needed where an assignment changes: any function answers the same epoch. The protocol
asks for equality only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from odradek.engine.groups.state import MemberState
from odradek.engine.streams.topology import ConfiguredTopology
from odradek.model.streams import EndpointPartitions, TaskId

_EPOCH_BYTES = 4
NO_ENDPOINTS_EPOCH = 0


def endpoint_information(
    members: Iterable[MemberState], configured: ConfiguredTopology
) -> tuple[int, tuple[EndpointPartitions, ...]]:
    """Return the epoch, 0 if no member has an endpoint, and the information about every member that has one."""
    found = []
    for member in sorted(members, key=lambda member: member.member_id):
        streams = member.streams
        if streams is not None and streams.endpoint is not None:
            active = _partitions(streams.assigned.active, configured)
            standby = _partitions(streams.assigned.standby, configured)
            found.append(EndpointPartitions(streams.endpoint, active, standby))
    if not found:
        return NO_ENDPOINTS_EPOCH, ()
    digest = hashlib.sha256(repr(found).encode()).digest()[:_EPOCH_BYTES]
    return max(int.from_bytes(digest, "big") >> 1, NO_ENDPOINTS_EPOCH + 1), tuple(found)


def _partitions(tasks: Iterable[TaskId], configured: ConfiguredTopology) -> Mapping[str, tuple[int, ...]]:
    names = configured.names()
    found: dict[str, list[int]] = {}
    for task in sorted(tasks):
        for partition in sorted(configured.partitions_of(task)):
            found.setdefault(names[partition.topic_id], []).append(partition.partition)
    return {name: tuple(sorted(numbers)) for name, numbers in sorted(found.items())}
