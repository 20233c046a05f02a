"""The order of one partition's batches."""

from __future__ import annotations

from odradek.client.producer.batch import BatchState, ProducerBatch
from odradek.client.producer.lane import Acknowledge, Fail, Lane, Retry, Split, Verdict, gave_up
from odradek.client.producer.record_future import RecordFuture
from odradek.client.retry import RetryPolicy
from odradek.errors import ErrorCode, KafkaError
from odradek.format.record_batch import parse_header
from odradek.limits import SEQUENCE_MAX
from odradek.model.record import CompressionType
from odradek.model.topic_partition import TopicPartition

PARTITION = TopicPartition("flights", 0)


def _lane(batches: int, *, idempotent: bool = True, acknowledged: bool = True, records: int = 2) -> Lane:
    lane = Lane(PARTITION, idempotent=idempotent, in_flight_max=5)
    if idempotent:
        lane.take_producer_id(7, 0)
    for i in range(batches + acknowledged):
        batch = ProducerBatch(PARTITION, i, 0.0, CompressionType.NONE, None, None)
        for _ in range(records):
            batch.append(0, None, b"x")
        lane.open = batch
        lane.seal()
        if acknowledged and i == 0:
            lane.send(batch, 0.0)
            lane.acknowledge(batch)
    return lane


def _send_all(lane: Lane) -> list[ProducerBatch]:
    sent = []
    while (batch := lane.next_to_send(0.0)) is not None:
        lane.send(batch, 0.0)
        sent.append(batch)
    return sent


def _fail(lane: Lane, batch: ProducerBatch, code: ErrorCode, *, applied: bool = False, now_s: float = 0.0) -> Verdict:
    verdict = lane.after_failure(
        batch,
        KafkaError(code),
        may_have_applied=applied,
        now_s=now_s,
        deadline_s=120.0,
        unknown_topic_patience_s=3.0,
        policy=RetryPolicy(),
        jitter=0.0,
    )
    if isinstance(verdict, Retry):
        lane.requeue(batch, now_s)
    elif isinstance(verdict, Fail):
        lane.fail(batch, code)
    return verdict


def _sequence(lane: Lane, batch: ProducerBatch) -> tuple[int, int]:
    header = parse_header(batch.encode(lane.producer_id, lane.producer_epoch))
    assert header.base_sequence == batch.base_sequence
    return header.producer_epoch, header.base_sequence


def test_five_are_in_flight_with_sequences_that_follow_each_other() -> None:
    lane = _lane(7)
    assert [_sequence(lane, batch) for batch in _send_all(lane)] == [(0, 2), (0, 4), (0, 6), (0, 8), (0, 10)]


def test_one_is_in_flight_until_the_first_acknowledgement_and_always_without_idempotence() -> None:
    assert len(_send_all(_lane(7, acknowledged=False))) == 1
    assert len(_send_all(_lane(7, idempotent=False))) == 1


def test_a_retry_keeps_its_sequence_and_nothing_new_overtakes_it() -> None:
    lane = _lane(7)
    first, second, *_ = sent = _send_all(lane)
    before = first.encode(7, 0)
    assert isinstance(_fail(lane, second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), Retry)
    assert lane.next_to_send(0.0) is None  # second waits for first, the sixth for second
    assert isinstance(_fail(lane, first, ErrorCode.REQUEST_TIMED_OUT, applied=True), Retry)
    assert _send_all(lane) == [first]
    assert first.encode(7, 0) == before
    for batch in sent[2:]:
        assert isinstance(_fail(lane, batch, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), Retry)
    lane.acknowledge(first)
    assert _send_all(lane) == [second]


def test_out_of_order_is_not_final_where_the_predecessor_was_acknowledged_meanwhile() -> None:
    """The server looked while the first one was still being tried there; its answer comes after the first one's."""
    lane = _lane(2)
    first, second = _send_all(lane)
    lane.acknowledge(first)
    assert isinstance(_fail(lane, second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), Retry)
    assert _send_all(lane) == [second]
    assert isinstance(_fail(lane, second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), Fail)  # now it says something


def test_sequences_wrap_after_the_largest() -> None:
    lane = _lane(2, records=4)
    lane.next_sequence = SEQUENCE_MAX - 1
    assert [batch.base_sequence for batch in _send_all(lane)] == [SEQUENCE_MAX - 1, 2]


def test_a_batch_given_up_surely_unwritten_lets_the_rest_go_on_under_the_next_epoch() -> None:
    lane = _lane(3)
    first, second, third = _send_all(lane)
    assert isinstance(_fail(lane, first, ErrorCode.TOPIC_AUTHORIZATION_FAILED), Fail)
    assert lane.next_to_send(0.0) is None  # the answers to second and third are still out
    _fail(lane, second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert lane.next_to_send(0.0) is None
    _fail(lane, third, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert _send_all(lane) == [second]
    assert _sequence(lane, second) == (1, 0)
    lane.acknowledge(second)
    assert _send_all(lane) == [third]
    assert _sequence(lane, third) == (1, 2)


def test_a_successor_in_doubt_is_asked_about_before_the_epoch_changes() -> None:
    lane = _lane(2)
    first, second = _send_all(lane)
    _fail(lane, second, ErrorCode.REQUEST_TIMED_OUT, applied=True)
    lane.requeue(first, 0.0)
    first.maybe_applied = True
    lane.fail(first, ErrorCode.REQUEST_TIMED_OUT)
    assert _send_all(lane) == [second]
    assert _sequence(lane, second) == (0, 4)  # as it was: a duplicate is recognized
    assert isinstance(_fail(lane, second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), Retry)
    assert _send_all(lane) == [second]
    assert _sequence(lane, second) == (1, 0)


def test_a_duplicate_is_a_success() -> None:
    lane = _lane(1)
    [batch] = _send_all(lane)
    assert _fail(lane, batch, ErrorCode.DUPLICATE_SEQUENCE_NUMBER) == Acknowledge()


def test_out_of_order_without_a_predecessor_is_final() -> None:
    lane = _lane(1)
    [batch] = _send_all(lane)
    assert isinstance(_fail(lane, batch, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), Fail)


def test_a_forgotten_producer_begins_a_new_epoch_unless_the_batch_is_in_doubt() -> None:
    lane = _lane(1)
    [batch] = _send_all(lane)
    assert isinstance(_fail(lane, batch, ErrorCode.UNKNOWN_PRODUCER_ID), Retry)
    assert _send_all(lane) == [batch]
    assert _sequence(lane, batch) == (1, 0)
    lane = _lane(1)
    [batch] = _send_all(lane)
    _fail(lane, batch, ErrorCode.REQUEST_TIMED_OUT, applied=True)
    _send_all(lane)
    assert isinstance(_fail(lane, batch, ErrorCode.UNKNOWN_PRODUCER_ID), Fail)


def test_a_fenced_producer_takes_a_new_id() -> None:
    lane = _lane(2)
    first, second = _send_all(lane)
    assert isinstance(_fail(lane, first, ErrorCode.INVALID_PRODUCER_EPOCH), Fail)
    assert not lane.needs_producer_id  # second is still out
    _fail(lane, second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert lane.next_to_send(0.0) is None
    assert lane.needs_producer_id
    lane.take_producer_id(8, 0)
    assert _send_all(lane) == [second]
    assert parse_header(second.encode(lane.producer_id, lane.producer_epoch)).producer_id == 8


def test_the_last_epoch_is_followed_by_a_new_id() -> None:
    lane = _lane(2)
    lane.take_producer_id(7, 2**15 - 1)
    [first] = _send_all(lane)
    _fail(lane, first, ErrorCode.INVALID_RECORD)
    assert lane.next_to_send(0.0) is None
    assert lane.needs_producer_id


def test_too_large_is_split_into_halves_that_keep_the_sequences() -> None:
    lane = _lane(2, records=5)
    first, second = _send_all(lane)
    assert _fail(lane, first, ErrorCode.MESSAGE_TOO_LARGE) == Split()
    futures = [RecordFuture(first, index, 0, -1, 1) for index in range(5)]
    offsets_resolved: list[int] = []
    futures[3].add_done_callback(lambda future: offsets_resolved.append(future.result().offset))
    halves = first.split(CompressionType.NONE, None)
    lane.replace(first, halves)
    _fail(lane, second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert _send_all(lane) == [halves[0]]
    assert [(half.base_sequence, half.record_count) for half in halves] == [(5, 2), (7, 3)]
    assert first.state is BatchState.SPLIT
    halves[0].acknowledge(40)
    halves[1].acknowledge(42)
    assert [future.result().offset for future in futures] == [40, 41, 42, 43, 44]
    assert offsets_resolved == [43]
    one = _lane(1, records=1)
    [batch] = _send_all(one)
    assert isinstance(_fail(one, batch, ErrorCode.MESSAGE_TOO_LARGE), Fail)


def test_a_batch_for_a_topic_that_has_grown_is_not_sent_again_before_it_is_partitioned_again() -> None:
    """The service refuses what a partitioner chose among fewer partitions: the number was two, and is larger."""
    lane = _lane(1)
    [batch] = lane.batches
    batch.chosen_by = 2
    assert _send_all(lane) == [batch]
    assert isinstance(_fail(lane, batch, ErrorCode.FENCED_LEADER_EPOCH), Retry)
    assert lane.is_stale(batch)
    batch.chosen_by = 3
    assert not lane.is_stale(batch)


def test_an_unknown_topic_is_waited_for_briefly() -> None:
    lane = _lane(1)
    [batch] = _send_all(lane)
    assert isinstance(_fail(lane, batch, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, now_s=1.0), Retry)
    lane.send(batch, 1.0)
    assert isinstance(_fail(lane, batch, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, now_s=4.0), Fail)


def test_a_batch_that_ran_out_of_time_says_what_the_service_answered() -> None:
    """A full disk was told as REQUEST_TIMED_OUT, since the last attempt had no time left for an answer."""
    lane = _lane(1)
    [batch] = _send_all(lane)
    assert gave_up(batch, "late").code is ErrorCode.REQUEST_TIMED_OUT
    _fail(lane, batch, ErrorCode.KAFKA_STORAGE_ERROR)
    assert (gave_up(batch, "late").code, gave_up(batch, "late").message) == (
        ErrorCode.KAFKA_STORAGE_ERROR,
        "KAFKA_STORAGE_ERROR (late)",
    )
    [batch] = _send_all(lane)
    verdict = _fail(lane, batch, ErrorCode.REQUEST_TIMED_OUT, applied=True, now_s=121.0)
    assert isinstance(verdict, Fail)
    assert verdict.error.code is ErrorCode.REQUEST_TIMED_OUT, "the last attempt may have written it"
    assert verdict.error.message == (
        "given up after 2 attempts and may have been written; last: KAFKA_STORAGE_ERROR: KAFKA_STORAGE_ERROR"
    )
