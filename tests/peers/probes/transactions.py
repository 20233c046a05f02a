"""Probes of transactions: InitProducerId, writing, offsets, EndTxn, what describes and lists them, time-outs."""

from __future__ import annotations

from typing import Any

from tests.peers.probe import Answer, Peer, attempt, pick, probe, settled, until
from tests.peers.probes.fetch import in_topic
from tests.peers.probes.offsets import commit, committed
from tests.peers.probes.produce import fetch, produce
from tests.peers.record_batches import IS_TRANSACTIONAL, Record, batch

_ENDED = "CompleteAbort", "Empty"


class Producer:
    """A transactional producer that does what a probe says, right or wrong."""

    def __init__(self, peer: Peer, transactional_id: str = "", timeout_ms: int = 60_000, version: int = 5) -> None:
        self.peer, self.transactional_id = peer, transactional_id or peer.name("x")
        self.version = version
        self.id, self.epoch, self.sequences = -1, -1, dict[tuple[str, int], int]()
        response = self.init(timeout_ms)
        assert response["ErrorCode"] == 0, response

    def init(self, timeout_ms: int = 60_000, **values: Any) -> dict[str, Any]:
        """Take an id and an epoch."""
        requested = {"TransactionalId": self.transactional_id, "TransactionTimeoutMs": timeout_ms, **values}
        response = settled(lambda: self.peer.call("InitProducerId", self.version, **requested))
        if response["ErrorCode"] == 0:
            self.id, self.epoch = response["ProducerId"], response["ProducerEpoch"]
            self.sequences.clear()
        return response

    def write(self, topic: str, partition: int = 0, *, version: int = 12, **header: Any) -> Answer:
        """Write a batch of one record; from version 12 on this adds the partition."""
        tp = topic, partition
        fields = {"producer_id": self.id, "producer_epoch": self.epoch, "base_sequence": self.sequences.get(tp, 0)}
        records = batch(Record(), attributes=IS_TRANSACTIONAL, **(fields | header))

        def ask() -> dict[str, Any]:
            return produce(
                self.peer, topic, records, partition=partition, version=version, transactional_id=self.transactional_id
            )

        response = settled(ask)
        if response["ErrorCode"] == 0:
            self.sequences[tp] = self.sequences.get(tp, 0) + 1
        return pick(response, "ErrorCode", "BaseOffset")

    def end(self, commits: bool, version: int = 5, **values: Any) -> dict[str, Any]:
        """End the transaction; take over the epoch that version 5 returns."""
        fields = {
            "TransactionalId": self.transactional_id, "ProducerId": self.id, "ProducerEpoch": self.epoch,
            "Committed": commits, **values,
        }  # fmt: skip
        response = settled(lambda: self.peer.call("EndTxn", version, **fields))
        if response["ErrorCode"] == 0 and version >= 5:
            self.epoch += 1
            self.sequences.clear()
            response["ProducerEpoch"] = (
                "the next" if response["ProducerEpoch"] == self.epoch else response["ProducerEpoch"]
            )
        response.pop("ProducerId", None)
        return response

    def offsets(self, group: str, topic: str, version: int = 5, **values: Any) -> Answer:
        """Commit an offset within the transaction."""
        row = {"PartitionIndex": 0, "CommittedOffset": 7, "CommittedMetadata": ""}
        fields = {
            "TransactionalId": self.transactional_id, "GroupId": group, "ProducerId": self.id,
            "ProducerEpoch": self.epoch, "GroupInstanceId": None, "Topics": [{"Name": topic, "Partitions": [row]}],
            **values,
        }  # fmt: skip

        def ask() -> dict[str, Any]:
            response = self.peer.call("TxnOffsetCommit", version, **fields)
            return {"ErrorCode": response["Topics"][0]["Partitions"][0]["ErrorCode"]}

        return settled(ask)


def _init(peer: Peer, transactional_id: str | None, version: int = 5, **values: Any) -> Answer:
    values = {"TransactionTimeoutMs": 60_000, **values}
    response = attempt(
        lambda: settled(lambda: peer.call("InitProducerId", version, TransactionalId=transactional_id, **values))
    )
    if isinstance(response, dict) and response["ProducerId"] >= 0:
        response["ProducerId"] = "made up"
    return response


def _read(peer: Peer, topic: str, *, is_settled: bool = True) -> int:
    """How many records a reader of committed records sees."""
    return in_topic(peer, topic, IsolationLevel=1, is_settled=is_settled)


# --- InitProducerId ---------------------------------------------------------------------------------------------------


@probe
def init(peer: Peer) -> Answer:
    return [_init(peer, peer.name("x")), _init(peer, peer.name("x"))]


@probe
def init_without_a_transactional_id(peer: Peer) -> Answer:
    return _init(peer, None)


@probe
def init_with_an_empty_transactional_id(peer: Peer) -> Answer:
    return _init(peer, "")


@probe
def init_with_odd_timeouts(peer: Peer) -> Answer:
    return [
        _init(peer, peer.name(f"x{index}"), TransactionTimeoutMs=timeout_ms)
        for index, timeout_ms in enumerate((0, -1, 900_000, 900_001))
    ]


@probe
def init_with_the_current_epoch(peer: Peer) -> Answer:
    producer = Producer(peer)
    return _init(peer, producer.transactional_id, ProducerId=producer.id, ProducerEpoch=producer.epoch)


@probe
def init_with_an_old_epoch(peer: Peer) -> Answer:
    producer = Producer(peer)
    old = producer.epoch
    producer.init()
    producer.init()
    return _init(peer, producer.transactional_id, ProducerId=producer.id, ProducerEpoch=old)


@probe
def init_with_another_producer_id(peer: Peer) -> Answer:
    producer = Producer(peer)
    return _init(peer, producer.transactional_id, ProducerId=producer.id + 4711, ProducerEpoch=0)


@probe
def init_with_an_id_and_no_epoch(peer: Peer) -> Answer:
    producer = Producer(peer)
    return _init(peer, producer.transactional_id, ProducerId=producer.id, ProducerEpoch=-1)


@probe
def init_while_a_transaction_is_open(peer: Peer) -> Answer:
    topic, producer = peer.topic(), Producer(peer)
    producer.write(topic)
    old = producer.epoch
    response = producer.init()
    return [response["ErrorCode"], producer.epoch > old, _read(peer, topic)]


# --- write and end ----------------------------------------------------------------------------------------------------


@probe
def commit_a_write(peer: Peer) -> Answer:
    topic, producer = peer.topic(), Producer(peer)
    return [producer.write(topic), producer.write(topic), producer.end(True), _read(peer, topic)]


@probe
def abort_a_write(peer: Peer) -> Answer:
    topic, producer = peer.topic(), Producer(peer)
    return [producer.write(topic), producer.end(False), _read(peer, topic)]


@probe
def two_transactions(peer: Peer) -> Answer:
    topic, producer = peer.topic(), Producer(peer)
    return [
        producer.write(topic)["ErrorCode"], producer.end(True), producer.write(topic)["ErrorCode"], producer.end(True),
        _read(peer, topic),
    ]  # fmt: skip


@probe
def commit_and_abort_of_nothing(peer: Peer) -> Answer:
    return [Producer(peer, peer.name(f"x{commits}")).end(commits) for commits in (True, False)]


@probe
def commit_twice(peer: Peer) -> Answer:
    topic, producer = peer.topic(), Producer(peer)
    producer.write(topic)
    old = producer.epoch
    producer.end(True)
    again = producer.end(True, ProducerEpoch=old)
    other = producer.end(False, ProducerEpoch=old)
    return [again, other]


@probe
def end_in_the_old_protocol(peer: Peer) -> Answer:
    topic, producer = peer.topic(), Producer(peer)
    added = _add(peer, producer, topic)
    return [
        added, producer.write(topic, version=11), producer.end(True, 4), producer.end(True, 4), producer.end(False, 4),
        _read(peer, topic),
    ]  # fmt: skip


@probe
def end_with_another_epoch(peer: Peer) -> Answer:
    topic, producer = peer.topic(), Producer(peer)
    producer.write(topic)
    return [
        producer.end(True, version, ProducerEpoch=producer.epoch + shift) for version in (4, 5) for shift in (-1, 1)
    ]


@probe
def end_with_another_producer_id(peer: Peer) -> Answer:
    producer = Producer(peer)
    return producer.end(True, ProducerId=producer.id + 4711)


@probe
def end_of_an_unknown_transactional_id(peer: Peer) -> Answer:
    producer = Producer(peer)
    return producer.end(True, TransactionalId=peer.name("none"))


@probe
def a_write_after_another_init(peer: Peer) -> Answer:
    topic, old = peer.topic(), Producer(peer)
    new = Producer(peer, old.transactional_id)
    return [old.write(topic), old.end(True), old.end(False, 4), new.write(topic), new.end(True), _read(peer, topic)]


@probe
def a_write_with_a_gap(peer: Peer) -> Answer:
    topic, producer = peer.topic(), Producer(peer)
    return [producer.write(topic), producer.write(topic, base_sequence=5), producer.end(False)]


@probe
def a_first_write_with_a_gap(peer: Peer) -> Answer:
    topic, producer = peer.topic(), Producer(peer)
    return producer.write(topic, base_sequence=5)


@probe
def a_repeated_write(peer: Peer) -> Answer:
    topic, producer = peer.topic(), Producer(peer)
    return [producer.write(topic), producer.write(topic, base_sequence=0), producer.end(True), _read(peer, topic)]


@probe
def a_plain_batch_in_a_transaction(peer: Peer) -> Answer:
    topic, producer = peer.topic(), Producer(peer)
    return attempt(lambda: producer.write(topic, attributes=0))


@probe
def a_write_to_an_unknown_topic(peer: Peer) -> Answer:
    return Producer(peer).write(peer.name("none"))


@probe
def a_write_in_the_old_protocol_without_adding(peer: Peer) -> Answer:
    topic, producer = peer.topic(), Producer(peer)
    return [producer.write(topic, version=11), producer.end(False, 4)]


# --- AddPartitionsToTxn, offsets --------------------------------------------------------------------------------------


def _add(peer: Peer, producer: Producer, topic: str, *partitions: int, version: int = 3, **values: Any) -> Answer:
    fields = {
        "V3AndBelowTransactionalId": producer.transactional_id, "V3AndBelowProducerId": producer.id,
        "V3AndBelowProducerEpoch": producer.epoch,
        "V3AndBelowTopics": [{"Name": topic, "Partitions": list(partitions or (0,))}], **values,
    }  # fmt: skip

    def ask() -> dict[str, Any]:
        [row] = peer.call("AddPartitionsToTxn", version, **fields)["ResultsByTopicV3AndBelow"]
        rows = {
            partition_row["PartitionIndex"]: partition_row["PartitionErrorCode"]
            for partition_row in row["ResultsByPartition"]
        }
        return {"ErrorCode": next(iter(rows.values())), "rows": sorted(rows.items())}

    return attempt(lambda: settled(ask)["rows"])


@probe
def partitions_are_added(peer: Peer) -> Answer:
    topic, producer = peer.topic(partitions=2), Producer(peer)
    return [
        _add(peer, producer, topic, 0, 1), _add(peer, producer, topic, 0), _add(peer, producer, topic, 0, 9),
        _add(peer, producer, peer.name("none")),
    ]  # fmt: skip


@probe
def partitions_are_added_with_another_epoch(peer: Peer) -> Answer:
    topic, producer = peer.topic(), Producer(peer)
    return [
        _add(peer, producer, topic, V3AndBelowProducerEpoch=producer.epoch + shift, version=version)
        for version in (1, 3)
        for shift in (-1, 1)
    ]


@probe
def partitions_are_added_to_an_unknown_id(peer: Peer) -> Answer:
    return _add(peer, Producer(peer), peer.topic(), V3AndBelowTransactionalId=peer.name("none"))


@probe
def offsets_are_committed(peer: Peer) -> Answer:
    topic, producer, group = peer.topic(), Producer(peer), peer.name("g")
    requested = [{"Name": topic, "PartitionIndexes": [0]}]
    before = [producer.offsets(group, topic), committed(peer, group, requested)]
    pending = peer.call("OffsetFetch", 9, Groups=[{"GroupId": group, "Topics": requested}], RequireStable=True)
    ended = producer.end(True)

    def is_applied() -> bool:  # Apache Kafka answers EndTxn before the offsets are committed
        return committed(peer, group, requested)[0]["Topics"][0]["Partitions"][0]["CommittedOffset"] == 7

    until(is_applied)
    return [*before, pending["Groups"], ended, committed(peer, group, requested)]


@probe
def offsets_are_aborted(peer: Peer) -> Answer:
    topic, producer, group = peer.topic(), Producer(peer), peer.name("g")
    requested = [{"Name": topic, "PartitionIndexes": [0]}]
    return [producer.offsets(group, topic), producer.end(False), committed(peer, group, requested)]


@probe
def a_plain_commit_while_offsets_are_pending(peer: Peer) -> Answer:
    topic, producer, group = peer.topic(), Producer(peer), peer.name("g")
    requested = [{"Name": topic, "PartitionIndexes": [0]}]
    return [
        producer.offsets(group, topic), commit(peer, group, topic, 3), committed(peer, group, requested),
        producer.end(True), committed(peer, group, requested),
    ]  # fmt: skip


@probe
def offsets_with_another_epoch(peer: Peer) -> Answer:
    topic, producer, group = peer.topic(), Producer(peer), peer.name("g")
    return [producer.offsets(group, topic, ProducerEpoch=producer.epoch + shift) for shift in (-1, 1)]


@probe
def offsets_of_an_unknown_member(peer: Peer) -> Answer:
    topic, producer, group = peer.topic(), Producer(peer), peer.name("g")
    return [
        producer.offsets(group, topic, MemberId="nobody", GenerationIdOrMemberEpoch=3),
        producer.offsets(group, topic, GenerationIdOrMemberEpoch=3),
        producer.offsets(group, topic, MemberId="nobody"),
    ]


@probe
def offsets_of_an_unknown_topic(peer: Peer) -> Answer:
    return Producer(peer).offsets(peer.name("g"), peer.name("none"))


@probe
def offsets_of_an_empty_group_id(peer: Peer) -> Answer:
    return Producer(peer).offsets("", peer.topic())


@probe
def offsets_in_the_old_protocol(peer: Peer) -> Answer:
    topic, producer, group = peer.topic(), Producer(peer), peer.name("g")
    fields = {
        "TransactionalId": producer.transactional_id, "ProducerId": producer.id, "ProducerEpoch": producer.epoch,
        "GroupId": group,
    }  # fmt: skip
    unannounced = producer.offsets(group, topic, 4)
    added = settled(lambda: peer.call("AddOffsetsToTxn", 3, **fields))
    return [unannounced, added, producer.offsets(group, topic, 4), producer.end(True, 4)]


# --- described --------------------------------------------------------------------------------------------------------


def _described(peer: Peer, *transactional_ids: str) -> Answer:
    rows = peer.call("DescribeTransactions", 0, TransactionalIds=list(transactional_ids))["TransactionStates"]
    for row in rows:
        row.update(
            ProducerId=row["ProducerId"] > 0,
            TransactionStartTimeMs=row["TransactionStartTimeMs"] > 0,
        )
    return sorted(rows, key=lambda row: row["TransactionalId"])


@probe
def describe_each_state(peer: Peer) -> Answer:
    topic, producer = peer.topic(), Producer(peer)
    rows = [_described(peer, producer.transactional_id)]
    producer.write(topic)
    rows.append(_described(peer, producer.transactional_id))
    producer.end(True)
    until(lambda: _described(peer, producer.transactional_id)[0]["TransactionState"] == "CompleteCommit")
    rows.append(_described(peer, producer.transactional_id))
    producer.write(topic)
    producer.end(False)
    until(lambda: _described(peer, producer.transactional_id)[0]["TransactionState"] == "CompleteAbort")
    return [*rows, _described(peer, producer.transactional_id)]


@probe
def describe_unknown_ids(peer: Peer) -> Answer:
    return _described(peer, peer.name("none"), "")


@probe
def list_by_state(peer: Peer) -> Answer:
    topic, producer = peer.topic(), Producer(peer)
    producer.write(topic)

    def listed(**filters: Any) -> Answer:
        response = peer.call("ListTransactions", 1, **filters)
        own = [row for row in response["TransactionStates"] if row["TransactionalId"] == producer.transactional_id]
        return [response["ErrorCode"], response["UnknownStateFilters"], [row["TransactionState"] for row in own]]

    return [
        listed(), listed(StateFilters=["Ongoing"]), listed(StateFilters=["ongoing"]), listed(StateFilters=["Empty"]),
        listed(StateFilters=["Nonsense", "Ongoing"]), listed(ProducerIdFilters=[producer.id]),
        listed(ProducerIdFilters=[producer.id + 4711]), listed(DurationFilter=3_600_000),
        listed(TransactionalIdPattern=f"x-{peer.suffix}"), listed(TransactionalIdPattern="no-.*"),
        listed(TransactionalIdPattern=""),
    ]  # fmt: skip


@probe
def producers_of_an_open_transaction(peer: Peer) -> Answer:
    topic, producer = peer.topic(), Producer(peer)
    producer.write(topic)
    requested = [{"Name": topic, "PartitionIndexes": [0]}]
    [row] = peer.call("DescribeProducers", 0, Topics=requested)["Topics"][0]["Partitions"]
    for producer_row in row["ActiveProducers"]:
        producer_row.update(ProducerId=producer_row["ProducerId"] > 0, LastTimestamp=producer_row["LastTimestamp"] > 0)
    return row


# --- time-outs --------------------------------------------------------------------------------------------------------


def _timed_out(peer: Peer, topic: str) -> Producer:
    """A producer whose transaction has ended by its time-out."""
    producer = Producer(peer, timeout_ms=1000)
    producer.write(topic)
    until(lambda: _described(peer, producer.transactional_id)[0]["TransactionState"] in _ENDED, 60.0)
    return producer


@probe
def an_abort_after_a_time_out(peer: Peer) -> Answer:
    topic = peer.topic()
    producer = _timed_out(peer, topic)
    response = producer.end(False)
    if response["ErrorCode"] == 0:
        producer.epoch += 1  # the time-out took one as well
    return [response, _read(peer, topic)]


@probe
def a_commit_after_a_time_out(peer: Peer) -> Answer:
    return _timed_out(peer, peer.topic()).end(True)


@probe
def a_write_after_a_time_out(peer: Peer) -> Answer:
    topic = peer.topic()
    return _timed_out(peer, topic).write(topic)


@probe
def offsets_after_a_time_out(peer: Peer) -> Answer:
    topic = peer.topic()
    return _timed_out(peer, topic).offsets(peer.name("g"), topic)


@probe
def an_abort_after_a_time_out_in_the_old_protocol(peer: Peer) -> Answer:
    topic = peer.topic()
    producer = _timed_out(peer, topic)
    return [producer.end(False, 4), producer.end(True, 4)]


@probe
def an_init_after_a_time_out(peer: Peer) -> Answer:
    topic = peer.topic()
    producer = _timed_out(peer, topic)
    return [producer.init()["ErrorCode"], producer.write(topic)["ErrorCode"], producer.end(True), _read(peer, topic)]


# --- isolation --------------------------------------------------------------------------------------------------------


@probe
def an_open_transaction_is_not_read_when_committed_records_are_asked_for(peer: Peer) -> Answer:
    topic, producer = peer.topic(), Producer(peer)
    producer.write(topic)
    return _read(peer, topic, is_settled=False)


@probe
def an_open_transaction_is_read_when_all_records_are_asked_for(peer: Peer) -> Answer:
    topic, producer = peer.topic(), Producer(peer)
    producer.write(topic)
    response = fetch(peer, topic)
    return {"offsets": [row["baseOffset"] for row in response["Records"]], **pick(response, "HighWatermark")}
