"""Probes of Fetch: offsets at both ends, limits, sessions, ids, isolation."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

from tests.peers.probe import Answer, Peer, attempt, probe, until
from tests.peers.probes.produce import fetch, produce
from tests.peers.record_batches import IS_CONTROL, IS_TRANSACTIONAL, Record, batch, batches


def _filled(peer: Peer, count: int = 3, **configs: Any) -> str:
    topic = peer.topic(**configs)
    for _ in range(count):
        produce(peer, topic, batch(Record(), Record()))
    return topic


def _ask(peer: Peer, version: int, topics: list[dict[str, Any]], **options: Any) -> Answer:
    """The whole answer, with headers of batches instead of bytes, and a session id as "new"."""
    options = {"MaxWaitMs": 300, "MinBytes": 1, "MaxBytes": 1 << 20, **options}
    response = peer.attempt("Fetch", version, Topics=topics, **options)
    if isinstance(response, dict):
        response["SessionId"] = "new" if response["SessionId"] else 0
        for topic in response["Responses"]:
            for row in topic["Partitions"]:
                row["Records"] = batches(row["Records"])
    return response


def _one(topic: str, offset: int = 0, **options: Any) -> list[dict[str, Any]]:
    row = {"Partition": 0, "FetchOffset": offset, "PartitionMaxBytes": 1 << 20, **options}
    return [{"Topic": topic, "Partitions": [row]}]


def in_topic(peer: Peer, topic: str, *, is_settled: bool = True, **options: Any) -> int:
    """Count the batches that a consumer sees: neither control batches nor what an aborted transaction wrote.

    Apache Kafka answers EndTxn before the outcome is in the log, so it is asked until it is. It begins another segment
    where timestamps are a week apart, and a fetch ends with its segment: the next one goes on.
    """

    def ask(offset: int) -> dict[str, Any] | None:
        topics = _one(topic, offset)
        response = peer.call("Fetch", 12, MaxWaitMs=300, MinBytes=1, MaxBytes=1 << 20, Topics=topics, **options)
        [row] = response["Responses"][0]["Partitions"]
        return row if not is_settled or row["LastStableOffset"] == row["HighWatermark"] else None

    count = offset = 0
    aborted: dict[int, int] = {}
    while True:
        row = until(partial(ask, offset))
        aborted |= {
            aborted_transaction["ProducerId"]: aborted_transaction["FirstOffset"]
            for aborted_transaction in row["AbortedTransactions"] or ()
        }
        headers = batches(row["Records"])
        for header in headers:
            is_aborted = header["baseOffset"] >= aborted.get(header["producerId"], 1 << 62)
            if header["attributes"] & IS_CONTROL:
                aborted.pop(header["producerId"], None)
            elif not (header["attributes"] & IS_TRANSACTIONAL and is_aborted):
                count += 1
            offset = header["baseOffset"] + header["lastOffsetDelta"] + 1
        if not headers:
            return count


@probe
def from_the_beginning(peer: Peer) -> Answer:
    return fetch(peer, _filled(peer))


@probe
def within_a_batch(peer: Peer) -> Answer:
    return fetch(peer, _filled(peer), 1)


@probe
def at_the_end(peer: Peer) -> Answer:
    return fetch(peer, _filled(peer), 6)


@probe
def beyond_the_end(peer: Peer) -> Answer:
    return fetch(peer, _filled(peer), 7)


@probe
def at_minus_one(peer: Peer) -> Answer:
    return attempt(lambda: fetch(peer, _filled(peer), -1))


@probe
def an_empty_topic(peer: Peer) -> Answer:
    return fetch(peer, peer.topic())


@probe
def below_the_log_start(peer: Peer) -> Answer:
    topic = _filled(peer)
    rows = [{"Name": topic, "Partitions": [{"PartitionIndex": 0, "Offset": 3}]}]
    deleted = peer.call("DeleteRecords", 2, Topics=rows, TimeoutMs=10_000)
    return [deleted, fetch(peer, topic, 0), fetch(peer, topic, 3), fetch(peer, topic, 2)]


@probe
def an_unknown_topic(peer: Peer) -> Answer:
    return fetch(peer, peer.name("none"))


@probe
def an_unknown_partition(peer: Peer) -> Answer:
    return fetch(peer, peer.topic(), partition=3)


@probe
def an_unknown_topic_id(peer: Peer) -> Answer:
    rows = [{"TopicId": uuid.UUID(int=99), "Partitions": [{"Partition": 0, "PartitionMaxBytes": 1000}]}]
    return _ask(peer, 13, rows)


@probe
def the_topic_id_of_nothing(peer: Peer) -> Answer:
    rows = [{"TopicId": uuid.UUID(int=0), "Partitions": [{"Partition": 0, "PartitionMaxBytes": 1000}]}]
    return _ask(peer, 13, rows)


@probe
def a_current_leader_epoch_that_is_too_high(peer: Peer) -> Answer:
    return fetch(peer, _filled(peer), CurrentLeaderEpoch=1000)


@probe
def a_last_fetched_epoch(peer: Peer) -> Answer:
    return fetch(peer, _filled(peer), LastFetchedEpoch=0)


@probe
def a_partition_limit_below_a_batch(peer: Peer) -> Answer:
    return fetch(peer, _filled(peer), PartitionMaxBytes=1)


@probe
def a_partition_limit_of_zero(peer: Peer) -> Answer:
    return fetch(peer, _filled(peer), PartitionMaxBytes=0)


@probe
def a_request_limit_of_zero(peer: Peer) -> Answer:
    return _ask(peer, 12, _one(_filled(peer)), MaxBytes=0)


@probe
def two_partitions_and_a_limit_below_a_batch(peer: Peer) -> Answer:
    topic = peer.topic(partitions=2)
    for partition in (0, 1):
        produce(peer, topic, batch(), partition=partition)
    rows = [{"Partition": number, "FetchOffset": 0, "PartitionMaxBytes": 1 << 20} for number in (0, 1)]
    return _ask(peer, 12, [{"Topic": topic, "Partitions": rows}], MaxBytes=1)


@probe
def a_negative_wait(peer: Peer) -> Answer:
    return _ask(peer, 12, _one(peer.topic()), MaxWaitMs=-1)


@probe
def the_same_partition_twice(peer: Peer) -> Answer:
    topic = _filled(peer)
    rows = [{"Partition": 0, "FetchOffset": offset, "PartitionMaxBytes": 1 << 20} for offset in (0, 4)]
    return _ask(peer, 12, [{"Topic": topic, "Partitions": rows}])


@probe
def no_topics(peer: Peer) -> Answer:
    return _ask(peer, 12, [])


@probe
def read_committed_without_transactions(peer: Peer) -> Answer:
    return _ask(peer, 12, _one(_filled(peer)), IsolationLevel=1)


@probe
def an_isolation_level_that_is_none(peer: Peer) -> Answer:
    return _ask(peer, 12, _one(_filled(peer)), IsolationLevel=5)


@probe
def the_oldest_version(peer: Peer) -> Answer:
    return _ask(peer, 4, _one(_filled(peer)))


# --- sessions ---------------------------------------------------------------------------------------------------------


def _in_session(peer: Peer, topics: list[dict[str, Any]], session_id: int, epoch: int, **options: Any) -> Any:
    options = {"MaxWaitMs": 100, "MinBytes": 1, "MaxBytes": 1 << 20, **options}
    return peer.call("Fetch", 12, Topics=topics, SessionId=session_id, SessionEpoch=epoch, **options)


def _told(response: dict[str, Any]) -> Answer:
    """Return the content of a response within a session."""
    rows = [
        [topic["Topic"], row["PartitionIndex"], row["ErrorCode"], len(batches(row["Records"]))]
        for topic in response["Responses"]
        for row in topic["Partitions"]
    ]
    return {"ErrorCode": response["ErrorCode"], "SessionId": "a" if response["SessionId"] else 0, "rows": rows}


@probe
def a_session_that_tells_only_what_changed(peer: Peer) -> Answer:
    topic = _filled(peer)
    first = _in_session(peer, _one(topic), 0, 0)
    session_id = first["SessionId"]
    idle = _in_session(peer, _one(topic, 6), session_id, 1)
    produce(peer, topic, batch())
    changed = _in_session(peer, [], session_id, 2)
    return [_told(first), _told(idle), _told(changed)]


@probe
def a_session_whose_epoch_is_skipped(peer: Peer) -> Answer:
    topic = _filled(peer)
    session_id = _in_session(peer, _one(topic), 0, 0)["SessionId"]
    return _told(_in_session(peer, [], session_id, 5))


@probe
def a_session_that_does_not_exist(peer: Peer) -> Answer:
    return _told(_in_session(peer, _one(_filled(peer)), 12345, 1))


@probe
def a_session_that_is_closed(peer: Peer) -> Answer:
    topic = _filled(peer)
    session_id = _in_session(peer, _one(topic), 0, 0)["SessionId"]
    closed = _in_session(peer, [], session_id, -1)
    return [_told(closed), _told(_in_session(peer, [], session_id, 1))]


@probe
def a_session_that_forgets_a_partition(peer: Peer) -> Answer:
    topic = _filled(peer)
    session_id = _in_session(peer, _one(topic, 6), 0, 0)["SessionId"]
    forgotten = [{"Topic": topic, "Partitions": [0]}]
    forgotten_response = _in_session(peer, [], session_id, 1, ForgottenTopicsData=forgotten)
    produce(peer, topic, batch())
    return [_told(forgotten_response), _told(_in_session(peer, [], session_id, 2))]


@probe
def a_full_fetch_outside_of_sessions(peer: Peer) -> Answer:
    return _told(_in_session(peer, _one(_filled(peer)), 0, -1))


@probe
def a_session_with_an_unknown_topic(peer: Peer) -> Answer:
    first = _in_session(peer, _one(peer.name("none")), 0, 0)
    return [_told(first), _told(_in_session(peer, [], first["SessionId"], 1))]
