"""Probes of ListOffsets and OffsetForLeaderEpoch: special offsets, times, batches whose header is wrong."""

from __future__ import annotations

from typing import Any

from tests.peers.probe import Answer, Peer, attempt, probe
from tests.peers.probes.produce import produce
from tests.peers.record_batches import NOW_MS, Record, batch

_SPECIAL = (-1, -2, -3, -4, -5)


def _ask(peer: Peer, topic: str, *times: int, version: int = 10, **options: Any) -> Answer:
    rows = []
    for time_ms in times:
        requested = [{"PartitionIndex": 0, "Timestamp": time_ms, **options}]
        fields = {"ReplicaId": -1, "IsolationLevel": 0, "Topics": [{"Name": topic, "Partitions": requested}]}
        if version >= 10:
            fields["TimeoutMs"] = 10_000
        response = attempt(lambda fields=fields: peer.call("ListOffsets", version, **fields))
        rows.append(response["Topics"] if isinstance(response, dict) else response)
    return rows


def _timed(peer: Peer, *late_ms: int, **header: Any) -> str:
    topic = peer.topic()
    for late in late_ms:
        produce(peer, topic, batch(Record(timestamp=NOW_MS + late), Record(timestamp=NOW_MS + late + 5), **header))
    return topic


@probe
def special_offsets(peer: Peer) -> Answer:
    return _ask(peer, _timed(peer, 0, 100), *_SPECIAL)


@probe
def special_offsets_of_an_empty_topic(peer: Peer) -> Answer:
    return _ask(peer, peer.topic(), *_SPECIAL, 0, NOW_MS)


@probe
def minus_six_in_the_newest_version(peer: Peer) -> Answer:
    return _ask(peer, _timed(peer, 0), -6, version=peer.newest("ListOffsets"))


@probe
def minus_six_in_version_ten(peer: Peer) -> Answer:
    return _ask(peer, _timed(peer, 0), -6)


@probe
def minus_seven(peer: Peer) -> Answer:
    return _ask(peer, _timed(peer, 0), -7)


@probe
def special_offsets_in_versions_before_theirs(peer: Peer) -> Answer:
    topic = _timed(peer, 0)
    return [_ask(peer, topic, -3, version=6), _ask(peer, topic, -4, version=7), _ask(peer, topic, -5, version=8)]


@probe
def times_around_records(peer: Peer) -> Answer:
    times = (0, NOW_MS - 1, NOW_MS, NOW_MS + 1, NOW_MS + 5, NOW_MS + 6, NOW_MS + 100, NOW_MS + 105, NOW_MS + 106)
    return _ask(peer, _timed(peer, 0, 100), *times)


@probe
def times_of_batches_out_of_order(peer: Peer) -> Answer:
    return _ask(peer, _timed(peer, 100, 0, 50), NOW_MS, NOW_MS + 50, NOW_MS + 60, NOW_MS + 101, -3)


@probe
def times_with_a_header_of_minus_one(peer: Peer) -> Answer:
    return _ask(peer, _timed(peer, 0, 100, max_timestamp=-1), NOW_MS, NOW_MS + 5, NOW_MS + 105, -3)


@probe
def times_with_a_header_that_is_too_low(peer: Peer) -> Answer:
    return _ask(peer, _timed(peer, 0, 100, max_timestamp=NOW_MS - 50), NOW_MS, NOW_MS + 5, NOW_MS + 105, -3)


@probe
def times_with_a_header_that_is_too_high(peer: Peer) -> Answer:
    topic = _timed(peer, 0, 100, max_timestamp=NOW_MS + 10_000)
    return _ask(peer, topic, NOW_MS, NOW_MS + 105, NOW_MS + 106, -3)


@probe
def times_of_records_without_any(peer: Peer) -> Answer:
    topic = peer.topic()
    produce(peer, topic, batch(Record(timestamp=-1)))
    return _ask(peer, topic, 0, NOW_MS, -3)


@probe
def the_newest_record_after_it_was_deleted(peer: Peer) -> Answer:
    topic = _timed(peer, 100, 0)
    rows = [{"Name": topic, "Partitions": [{"PartitionIndex": 0, "Offset": 2}]}]
    peer.call("DeleteRecords", 2, Topics=rows, TimeoutMs=10_000)
    return _ask(peer, topic, -2, NOW_MS, NOW_MS + 101)


@probe
def an_unknown_topic(peer: Peer) -> Answer:
    return _ask(peer, peer.name("none"), -1)


@probe
def an_unknown_partition(peer: Peer) -> Answer:
    requested = [{"PartitionIndex": 7, "Timestamp": -1}]
    topics = [{"Name": peer.topic(), "Partitions": requested}]
    return peer.attempt("ListOffsets", 9, ReplicaId=-1, IsolationLevel=0, Topics=topics)


@probe
def the_same_partition_twice(peer: Peer) -> Answer:
    requested = [{"PartitionIndex": 0, "Timestamp": -1}, {"PartitionIndex": 0, "Timestamp": -2}]
    topics = [{"Name": _timed(peer, 0), "Partitions": requested}]
    return peer.attempt("ListOffsets", 9, ReplicaId=-1, IsolationLevel=0, Topics=topics)


@probe
def a_leader_epoch_that_is_too_high(peer: Peer) -> Answer:
    return _ask(peer, _timed(peer, 0), -1, CurrentLeaderEpoch=1000)


@probe
def the_oldest_version(peer: Peer) -> Answer:
    topic, requested = _timed(peer, 0), [{"PartitionIndex": 0, "Timestamp": NOW_MS}]
    return peer.attempt("ListOffsets", 1, ReplicaId=-1, Topics=[{"Name": topic, "Partitions": requested}])


@probe
def a_replica_asks(peer: Peer) -> Answer:
    requested = [{"PartitionIndex": 0, "Timestamp": -1}]
    topics = [{"Name": _timed(peer, 0), "Partitions": requested}]
    return peer.attempt("ListOffsets", 9, ReplicaId=-2, IsolationLevel=0, Topics=topics)


def _epochs(peer: Peer, epoch: int, current: int = -1) -> Answer:
    requested = [{"Partition": 0, "CurrentLeaderEpoch": current, "LeaderEpoch": epoch}]
    topics = [{"Topic": _timed(peer, 0), "Partitions": requested}]
    return peer.attempt("OffsetForLeaderEpoch", 4, ReplicaId=-2, Topics=topics)


@probe
def the_end_of_epoch_zero(peer: Peer) -> Answer:
    return _epochs(peer, 0)


@probe
def the_end_of_an_epoch_to_come(peer: Peer) -> Answer:
    return _epochs(peer, 5)


@probe
def the_end_of_epoch_minus_one(peer: Peer) -> Answer:
    return _epochs(peer, -1)


@probe
def the_end_of_an_epoch_by_a_client_that_knows_a_later_one(peer: Peer) -> Answer:
    return _epochs(peer, 0, current=9)
