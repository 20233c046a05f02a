"""Probes of Produce: what a leader takes, what it refuses and in which words, what it stores."""

from __future__ import annotations

import gzip
from typing import Any

import cramjam

from tests.peers.probe import Answer, Peer, attempt, by_name, pick, probe, settled
from tests.peers.record_batches import IS_CONTROL, IS_LOG_APPEND_TIME, NOW_MS, Record, batch, batches

_DAY_MS = 86_400_000


def produce(
    peer: Peer, topic: str, records: bytes | None, *, partition: int = 0, acks: int = -1, version: int = 12,
    transactional_id: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Write to a partition; return the partition's part of the answer without its time."""
    data = [{"Name": topic, "PartitionData": [{"Index": partition, "Records": records}]}]
    response = peer.call(
        "Produce", version, Acks=acks, TimeoutMs=10_000, TopicData=data, TransactionalId=transactional_id
    )
    [row] = response["Responses"][0]["PartitionResponses"]
    if row.get("LogAppendTimeMs", -1) > 0:
        row["LogAppendTimeMs"] = "now"
    for error in row.get("RecordErrors", ()):
        error["BatchIndexErrorMessage"] = error["BatchIndexErrorMessage"] and "..."
    return row


def fetch(peer: Peer, topic: str, offset: int = 0, *, partition: int = 0, **options: Any) -> dict[str, Any]:
    """Read a partition once; return its part of the answer with the headers of batches instead of bytes."""
    requested = {"Partition": partition, "FetchOffset": offset, "PartitionMaxBytes": 1 << 20, **options}
    response = peer.call(
        "Fetch", 12, MaxWaitMs=500, MinBytes=1, MaxBytes=1 << 20, Topics=[{"Topic": topic, "Partitions": [requested]}]
    )
    [row] = response["Responses"][0]["Partitions"]
    row["Records"] = batches(row["Records"])
    return row


def stored(peer: Peer, topic: str, records: bytes | None, **options: Any) -> Answer:
    """The answer to a produce request, and what a fetch then returns."""
    produced = produce(peer, topic, records, **options)
    return {"produce": produced, "fetch": fetch(peer, topic)}


def _lz4(data: bytes) -> bytes:
    return bytes(cramjam.lz4.compress(data))


def _snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def _zstd(data: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(data))


# --- what is stored ---------------------------------------------------------------------------------------------------


@probe
def one_record(peer: Peer) -> Answer:
    return stored(peer, peer.topic(), batch())


@probe
def a_header_with_max_timestamp_minus_one(peer: Peer) -> Answer:
    return stored(peer, peer.topic(), batch(Record(), Record(timestamp=NOW_MS + 5), max_timestamp=-1))


@probe
def a_header_with_a_max_timestamp_too_low(peer: Peer) -> Answer:
    return stored(peer, peer.topic(), batch(Record(), Record(timestamp=NOW_MS + 5), max_timestamp=NOW_MS))


@probe
def a_header_with_a_max_timestamp_too_high(peer: Peer) -> Answer:
    return stored(peer, peer.topic(), batch(Record(), max_timestamp=NOW_MS + 5))


@probe
def a_gzip_header_with_max_timestamp_minus_one(peer: Peer) -> Answer:
    records = batch(Record(), Record(timestamp=NOW_MS + 5), max_timestamp=-1, attributes=1, compress=gzip.compress)
    return stored(peer, peer.topic(), records)


@probe
def records_without_timestamps(peer: Peer) -> Answer:
    return stored(peer, peer.topic(), batch(Record(timestamp=-1), Record(timestamp=-1)))


@probe
def records_out_of_time_order(peer: Peer) -> Answer:
    return stored(peer, peer.topic(), batch(*(Record(timestamp=NOW_MS + late) for late in (5, 9, 1))))


@probe
def a_base_offset_that_is_not_zero(peer: Peer) -> Answer:
    return stored(peer, peer.topic(), batch(Record(), base_offset=4711))


@probe
def a_leader_epoch_in_the_batch(peer: Peer) -> Answer:
    return stored(peer, peer.topic(), batch(Record(), leader_epoch=7))


@probe
def log_append_time(peer: Peer) -> Answer:
    topic = peer.topic(message_timestamp_type="LogAppendTime")
    stored_records = stored(peer, topic, batch(Record(), Record(timestamp=5)))
    for row in stored_records["fetch"]["Records"]:
        row["maxTimestamp"] = "now" if row["maxTimestamp"] > NOW_MS + _DAY_MS else row["maxTimestamp"]
    return stored_records


@probe
def the_bit_of_log_append_time_from_a_producer(peer: Peer) -> Answer:
    return attempt(lambda: stored(peer, peer.topic(), batch(attributes=IS_LOG_APPEND_TIME)))


@probe
def unused_attribute_bits(peer: Peer) -> Answer:
    return attempt(lambda: stored(peer, peer.topic(), batch(attributes=0x200)))


@probe
def null_key_and_null_value(peer: Peer) -> Answer:
    return stored(peer, peer.topic(), batch(Record(key=None, value=None)))


@probe
def headers_with_null_and_doubled_names(peer: Peer) -> Answer:
    return stored(peer, peer.topic(), batch(Record(headers=[("a", None), ("a", b"1"), ("", b"")])))


@probe
def gzip_records(peer: Peer) -> Answer:
    return stored(peer, peer.topic(), batch(Record(), Record(), attributes=1, compress=gzip.compress))


@probe
def raw_snappy_records(peer: Peer) -> Answer:
    return attempt(lambda: stored(peer, peer.topic(), batch(Record(), Record(), attributes=2, compress=_snappy)))


@probe
def lz4_records(peer: Peer) -> Answer:
    return stored(peer, peer.topic(), batch(Record(), Record(), attributes=3, compress=_lz4))


@probe
def zstd_records(peer: Peer) -> Answer:
    return stored(peer, peer.topic(), batch(Record(), Record(), attributes=4, compress=_zstd))


@probe
def two_batches_in_one_partition(peer: Peer) -> Answer:
    return attempt(lambda: stored(peer, peer.topic(), batch() + batch()))


@probe
def a_topic_that_stores_gzip(peer: Peer) -> Answer:
    return stored(peer, peer.topic(compression_type="gzip"), batch(Record(value=b"v" * 500)))


@probe
def a_topic_that_stores_uncompressed(peer: Peer) -> Answer:
    records = batch(Record(value=b"v" * 500), attributes=1, compress=gzip.compress)
    return stored(peer, peer.topic(compression_type="uncompressed"), records)


# --- what is refused --------------------------------------------------------------------------------------------------


@probe
def an_unknown_topic(peer: Peer) -> Answer:
    return produce(peer, peer.name("none"), batch())


@probe
def an_unknown_partition(peer: Peer) -> Answer:
    return produce(peer, peer.topic(), batch(), partition=5)


@probe
def a_negative_partition(peer: Peer) -> Answer:
    return attempt(lambda: produce(peer, peer.topic(), batch(), partition=-1))


@probe
def acks_of_two(peer: Peer) -> Answer:
    return attempt(lambda: produce(peer, peer.topic(), batch(), acks=2))


@probe
def acks_of_minus_two(peer: Peer) -> Answer:
    return attempt(lambda: produce(peer, peer.topic(), batch(), acks=-2))


@probe
def empty_records(peer: Peer) -> Answer:
    return attempt(lambda: produce(peer, peer.topic(), b""))


@probe
def a_wrong_checksum(peer: Peer) -> Answer:
    return attempt(lambda: produce(peer, peer.topic(), batch(crc_off=1)))


@probe
def magic_one(peer: Peer) -> Answer:
    return attempt(lambda: produce(peer, peer.topic(), batch(magic=1)))


@probe
def magic_three(peer: Peer) -> Answer:
    return attempt(lambda: produce(peer, peer.topic(), batch(magic=3)))


@probe
def a_truncated_batch(peer: Peer) -> Answer:
    return attempt(lambda: produce(peer, peer.topic(), batch()[:-3]))


@probe
def a_count_that_is_too_high(peer: Peer) -> Answer:
    return attempt(lambda: produce(peer, peer.topic(), batch(count=2)))


@probe
def a_count_that_is_too_low(peer: Peer) -> Answer:
    return attempt(lambda: produce(peer, peer.topic(), batch(Record(), Record(), count=1)))


@probe
def a_count_of_zero(peer: Peer) -> Answer:
    return attempt(lambda: produce(peer, peer.topic(), batch(count=0, last_offset_delta=0)))


@probe
def a_last_offset_delta_that_is_too_high(peer: Peer) -> Answer:
    return attempt(lambda: produce(peer, peer.topic(), batch(last_offset_delta=5)))


@probe
def offset_deltas_that_skip(peer: Peer) -> Answer:
    records = (Record(), Record(offset_delta=3))
    return attempt(lambda: produce(peer, peer.topic(), batch(*records, last_offset_delta=3)))


@probe
def offset_deltas_that_do_not_begin_at_zero(peer: Peer) -> Answer:
    records = (Record(offset_delta=1), Record(offset_delta=2))
    return attempt(lambda: produce(peer, peer.topic(), batch(*records, last_offset_delta=2)))


@probe
def a_control_batch(peer: Peer) -> Answer:
    return attempt(lambda: produce(peer, peer.topic(), batch(attributes=IS_CONTROL)))


@probe
def an_unknown_codec(peer: Peer) -> Answer:
    return attempt(lambda: produce(peer, peer.topic(), batch(attributes=6)))


@probe
def a_codec_that_the_records_do_not_have(peer: Peer) -> Answer:
    return attempt(lambda: produce(peer, peer.topic(), batch(attributes=1)))


@probe
def a_compacted_topic_and_no_key(peer: Peer) -> Answer:
    return produce(peer, peer.topic(cleanup_policy="compact"), batch(Record(key=b"k"), Record(key=None)))


@probe
def a_timestamp_too_far_ahead(peer: Peer) -> Answer:
    topic = peer.topic(message_timestamp_after_max_ms=1000)
    return produce(peer, topic, batch(Record(), Record(timestamp=NOW_MS + 400_000 * _DAY_MS)))


@probe
def a_timestamp_too_old(peer: Peer) -> Answer:
    topic = peer.topic(message_timestamp_before_max_ms=1000)
    return produce(peer, topic, batch(Record(timestamp=1), Record(timestamp=2)))


@probe
def a_batch_over_the_topics_limit(peer: Peer) -> Answer:
    return produce(peer, peer.topic(max_message_bytes=1000), batch(Record(value=b"v" * 2000)))


@probe
def a_batch_exactly_at_the_topics_limit(peer: Peer) -> Answer:
    size = len(batch(Record(value=b"v" * 900)))
    return [produce(peer, peer.topic(f"t{less}", max_message_bytes=size - less), batch(Record(value=b"v" * 900)))
            for less in (0, 1)]  # fmt: skip


@probe
def a_transactional_id_and_a_plain_batch(peer: Peer) -> Answer:
    return attempt(lambda: produce(peer, peer.topic(), batch(), transactional_id=peer.name("x")))


@probe
def the_same_partition_twice(peer: Peer) -> Answer:
    topic = peer.topic()
    rows = [{"Index": 0, "Records": batch()}, {"Index": 0, "Records": batch()}]
    return peer.attempt("Produce", 12, Acks=-1, TimeoutMs=10_000, TopicData=[{"Name": topic, "PartitionData": rows}])


@probe
def no_topics(peer: Peer) -> Answer:
    return peer.attempt("Produce", 12, Acks=-1, TimeoutMs=10_000, TopicData=[])


@probe
def a_topic_without_partitions(peer: Peer) -> Answer:
    topic = peer.topic()
    return peer.attempt("Produce", 12, Acks=-1, TimeoutMs=10_000, TopicData=[{"Name": topic, "PartitionData": []}])


@probe
def a_good_and_a_bad_partition(peer: Peer) -> Answer:
    topic = peer.topic(partitions=2)
    rows = [{"Index": 0, "Records": batch()}, {"Index": 1, "Records": batch(crc_off=1)}]
    data = [{"Name": topic, "PartitionData": rows}]
    response = peer.call("Produce", 12, Acks=-1, TimeoutMs=10_000, TopicData=data)
    return by_name(response["Responses"][0]["PartitionResponses"], "Index")


@probe
def an_unknown_topic_id(peer: Peer) -> Answer:
    import uuid

    rows = [{"TopicId": uuid.UUID(int=4711), "PartitionData": [{"Index": 0, "Records": batch()}]}]
    return peer.attempt("Produce", 13, Acks=-1, TimeoutMs=10_000, TopicData=rows)


@probe
def a_topic_by_its_id(peer: Peer) -> Answer:
    rows = [{"TopicId": peer.topic_id(peer.topic()), "PartitionData": [{"Index": 0, "Records": batch()}]}]
    return peer.attempt("Produce", 13, Acks=-1, TimeoutMs=10_000, TopicData=rows)


# --- acks=0 -----------------------------------------------------------------------------------------------------------


def _acks_zero(peer: Peer, topic: str, records: bytes) -> Answer:
    connection = peer.connect()
    rows = [{"Name": topic, "PartitionData": [{"Index": 0, "Records": records}]}]
    connection.send("Produce", 12, {"Acks": 0, "TimeoutMs": 10_000, "TopicData": rows})
    return attempt(lambda: pick(connection.call("ApiVersions", 0), "ErrorCode"))


@probe
def acks_zero(peer: Peer) -> Answer:
    topic = peer.topic()
    return [_acks_zero(peer, topic, batch()), fetch(peer, topic)]


@probe
def acks_zero_to_an_unknown_topic(peer: Peer) -> Answer:
    return _acks_zero(peer, peer.name("none"), batch())


@probe
def acks_zero_and_a_wrong_checksum(peer: Peer) -> Answer:
    return _acks_zero(peer, peer.topic(), batch(crc_off=1))


# --- idempotent producers ---------------------------------------------------------------------------------------------


def numbered(producer_id: int, sequence: int, epoch: int = 0, records: int = 1) -> bytes:
    """A batch of an idempotent producer."""
    return batch(
        *(Record() for _ in range(records)), producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
    )


def producer_id(peer: Peer) -> int:
    """Take a new producer id."""
    response = settled(lambda: peer.call("InitProducerId", 4, TransactionalId=None, TransactionTimeoutMs=60_000))
    assert response["ErrorCode"] == 0, response
    return int(response["ProducerId"])


def _sequences(peer: Peer, *sequences: tuple[int, int]) -> Answer:
    """Answers to batches of (epoch, sequence) of one new producer, one after the other."""
    topic, number = peer.topic(), producer_id(peer)
    rows = []
    for epoch, sequence in sequences:
        produced = attempt(
            lambda epoch=epoch, sequence=sequence: produce(peer, topic, numbered(number, sequence, epoch))
        )
        rows.append(produced)
    return rows


@probe
def a_sequence_that_is_repeated(peer: Peer) -> Answer:
    return _sequences(peer, (0, 0), (0, 1), (0, 0), (0, 1))


@probe
def a_sequence_that_is_repeated_after_five_more(peer: Peer) -> Answer:
    return _sequences(peer, *((0, number) for number in range(7)), (0, 0), (0, 1), (0, 2))


@probe
def a_gap_in_the_sequence(peer: Peer) -> Answer:
    return _sequences(peer, (0, 0), (0, 2), (0, 1))


@probe
def a_first_sequence_that_is_not_zero(peer: Peer) -> Answer:
    return _sequences(peer, (0, 5), (0, 6))


@probe
def a_higher_epoch(peer: Peer) -> Answer:
    return _sequences(peer, (0, 0), (1, 0), (1, 1))


@probe
def a_higher_epoch_with_a_sequence_that_is_not_zero(peer: Peer) -> Answer:
    return _sequences(peer, (0, 0), (1, 3))


@probe
def a_lower_epoch(peer: Peer) -> Answer:
    return _sequences(peer, (1, 0), (0, 1))


@probe
def an_epoch_of_minus_one(peer: Peer) -> Answer:
    return _sequences(peer, (-1, 0))


@probe
def a_sequence_of_minus_two(peer: Peer) -> Answer:
    return _sequences(peer, (0, -2))


@probe
def a_sequence_that_wraps(peer: Peer) -> Answer:
    return _sequences(peer, (0, 2**31 - 1), (0, 0), (0, 1))


@probe
def an_unknown_producer_id(peer: Peer) -> Answer:
    return attempt(lambda: produce(peer, peer.topic(), numbered(10**9, 0)))


@probe
def a_producer_id_without_a_sequence(peer: Peer) -> Answer:
    records = batch(producer_id=producer_id(peer), producer_epoch=0, base_sequence=-1)
    return attempt(lambda: produce(peer, peer.topic(), records))


@probe
def a_repeated_batch_of_another_length(peer: Peer) -> Answer:
    topic, number = peer.topic(), producer_id(peer)
    return [attempt(lambda count=count: produce(peer, topic, numbered(number, 0, records=count))) for count in (3, 2)]


@probe
def two_numbered_batches_in_one_partition(peer: Peer) -> Answer:
    topic, number = peer.topic(), producer_id(peer)
    return attempt(lambda: produce(peer, topic, numbered(number, 0) + numbered(number, 1)))
