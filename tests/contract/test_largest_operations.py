"""The engine's operations at their largest, over every backend: nothing that is sent is beyond a limit of the store.

The most producers, entries, places, rows and versions; the longest names; the largest numbers. Over moto, or over the
strict emulator of `make contract-strict`, where the limits are DynamoDB's and not only ours. What an operation begins
with is put into the tables as it is (tests/support/stores/largest.py): each case is the one operation that it is about.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from odradek.engine.access.users import NAME_BYTES_MAX, SALT_BYTES_MAX
from odradek.engine.catalog.topic_configs import DEFINITIONS, VALUE_CHARACTERS_MAX
from odradek.engine.engine import Engine
from odradek.engine.partition.head import PartitionHead, ProducerState, encode_head, head_key
from odradek.engine.partition.index import ROWS_REPLACED_MAX
from odradek.engine.partition.index_row import IndexRow, encode_index_row
from odradek.errors import ErrorCode, KafkaError
from odradek.format.item_keys import index_sk, partition_pk
from odradek.format.tail_entry import TailEntry, encode_tail_entry
from odradek.limits import (
    ABORTED_SEQUENCES_MAX,
    OFFSET_MAX,
    OFFSET_METADATA_BYTES_MAX,
    PARTITIONS_PER_HEAD_MAX,
    PRODUCER_EPOCH_MAX,
    REQUEST_BATCHES_PER_PARTITION_MAX,
    SCHEMA_BYTES_MAX,
    SCHEMA_REFERENCES_MAX,
    SEQUENCE_MAX,
    SPILL_ENTRIES_MAX,
    SUBJECT_NAME_BYTES_MAX,
    SUBJECT_VERSIONS_MAX,
    TRANSACTION_PLACES_MAX,
)
from odradek.model.acl import AclBinding, AclFilter, AclOperation, AclPermission, PatternType, ResourceType
from odradek.model.log import ProducePartition
from odradek.model.topic_partition import OffsetAndMetadata, PartitionId, TopicPartition
from odradek.model.user import SaslMechanism, ScramCredential, User
from odradek.ports.table import Key, Put
from odradek.registry.errors import RegistryError
from odradek.registry.rows import Subject, SubjectVersion, encode_subject, subject_key
from odradek.registry.schemas import Reference, Schema
from odradek.registry.subjects import Subjects
from odradek.system import SystemClock, SystemRng

from tests.support.clients.transactional_producer import Transactor, transactional_batch, values
from tests.support.counted import at_least
from tests.support.engine import batch, produce, read_all
from tests.support.stores.largest import ID, long_id, name_of, plays_moto, put_all, topic_of

Engines = Callable[..., Engine]


async def partition_of(engine: Engine, topic: str) -> PartitionId:
    return PartitionId((await engine.topics.resolve(topic)).topic_id, 0)


@pytest.mark.parametrize("producers", [40, SPILL_ENTRIES_MAX])
async def test_a_spill_of_the_longest_tail_and_the_most_producers(engine_of: Engines, producers: int) -> None:
    engine = engine_of()
    topic = name_of(0)
    await engine.topics.create(topic, 1)
    partition = await partition_of(engine, topic)
    if plays_moto(engine):
        pytest.skip("moto's parser calls itself for every element that an update removes, and Python stops it")
    base = OFFSET_MAX - 10**6
    ids = [2**63 - 1 - number for number in range(producers)]
    tail = [
        TailEntry(b"\xff" * 16, 2**31, 2**31, 1, 2**62, producer_id, PRODUCER_EPOCH_MAX, SEQUENCE_MAX, 2**62)
        for producer_id in (ids * SPILL_ENTRIES_MAX)[: 2 * SPILL_ENTRIES_MAX]
    ]
    head = PartitionHead(
        base + len(tail),
        tail_base_offset=base,
        merged_offset=base,
        tail=tuple(map(encode_tail_entry, tail)),
        appended_bytes=2**62,
        producers={producer_id: ProducerState(PRODUCER_EPOCH_MAX, SEQUENCE_MAX) for producer_id in ids},
        evictions=2**62,
    )
    await engine.index._log.put(Put(head_key(partition), encode_head(head)))
    for _ in range(4):
        now = await engine.index.read_head(partition)
        assert now is not None
        await engine.index.spill(partition, now)
    after = await engine.index.read_head(partition)
    assert after is not None
    assert len(after.tail) <= 16
    assert len(after.producers) <= 32 + SPILL_ENTRIES_MAX


async def test_an_append_of_the_most_batches(engine_of: Engines) -> None:
    engine = engine_of()
    topic = name_of(0)
    await engine.topics.create(topic, 1)
    result = await produce(engine, topic, 0, batch([b"x"]) * REQUEST_BATCHES_PER_PARTITION_MAX)
    assert (result.error, result.base_offset) == (ErrorCode.NONE, 0)
    assert len(await read_all(engine, topic, 0)) == REQUEST_BATCHES_PER_PARTITION_MAX
    if plays_moto(engine):
        return  # it cannot remove so many elements
    head = await engine.index.read_head(await partition_of(engine, topic))
    assert head is not None
    assert len(head.tail) < 100


async def test_appends_to_the_most_partitions_of_a_head(engine_of: Engines) -> None:
    """The longest conditions are those of first batches of a later epoch; then a transaction, and a long tail."""
    engine = engine_of(spill_entries=SPILL_ENTRIES_MAX)
    numbers = range(PARTITIONS_PER_HEAD_MAX)
    configs = {"odradek.partitions.per.head": str(PARTITIONS_PER_HEAD_MAX)}
    topic = await engine.topics.create(name_of(0), PARTITIONS_PER_HEAD_MAX, configs)

    async def sent(sequence: int, producer_id: int) -> set[ErrorCode]:
        records = batch([b"x"], producer=(producer_id, PRODUCER_EPOCH_MAX, sequence))
        results = await engine.produce([ProducePartition(topic.name, number, records) for number in numbers])
        return {result.error for result in results}

    for producer_id in range(2**63 - 6, 2**63 - 1):
        assert [await sent(sequence, producer_id) for sequence in range(3)] == [{ErrorCode.NONE}] * 3
    transactor = await Transactor(engine, f"{topic.topic_id}{ID[:-18]}").init()
    for number in numbers:
        await transactor.send(topic.name, number, b"x")
    await transactor.commit()
    head = await engine.index.read_head(PartitionId(topic.topic_id, PARTITIONS_PER_HEAD_MAX - 1))
    assert head is not None
    await engine.index.spill_to_rows(PartitionId(topic.topic_id, 0), head)
    assert [len(await read_all(engine, topic.name, number)) for number in numbers] == [16] * len(numbers)
    assert await sent(3, 2**63 - 2) == {ErrorCode.NONE}


@pytest.mark.parametrize("per_head", [1, 8])
async def test_a_call_of_many_producers(engine_of: Engines, per_head: int) -> None:
    """A gateway merges calls of its connections: more producers of more partitions than one update compares."""
    engine = engine_of()
    numbers = range(max(2, per_head))
    topic = await engine.topics.create(name_of(0), len(numbers), {"odradek.partitions.per.head": str(per_head)})
    producers = range(2**63 - 41, 2**63 - 1)

    async def sent(epoch: int, sequence: int) -> set[ErrorCode]:
        """The outcomes, once what an emulator was too slow for has been sent again."""
        calls = [
            ProducePartition(topic.name, number, batch([b"x"], producer=(producer, epoch, sequence)))
            for number in numbers
            for producer in producers
        ]
        outcomes: set[ErrorCode] = set()
        while calls:
            results = await engine.produce(calls)
            outcomes |= {result.error for result in results if result.error is not ErrorCode.NOT_ENOUGH_REPLICAS}
            again = [
                call
                for call, result in zip(calls, results, strict=True)
                if result.error is ErrorCode.NOT_ENOUGH_REPLICAS
            ]
            assert len(again) < len(calls)
            calls = again
        return outcomes

    assert await sent(0, 0) == {ErrorCode.NONE}
    assert await sent(0, 1) == {ErrorCode.NONE}
    assert await sent(PRODUCER_EPOCH_MAX, 0) == {ErrorCode.NONE}
    assert [len(await read_all(engine, topic.name, number)) for number in numbers] == [120] * len(numbers)


async def test_a_transaction_of_the_most_places(engine_of: Engines) -> None:
    engine = engine_of(offset_metadata_bytes_max=OFFSET_METADATA_BYTES_MAX)
    count = TRANSACTION_PLACES_MAX // 2
    topic = await topic_of(engine, count + 1, heads=count)
    transactor = await Transactor(engine, f"{topic.topic_id}{ID[:-18]}").init()
    written = [
        ProducePartition(topic.name, partition, transactional_batch([b"a", b"b"], transactor.producer_id, 0, 0))
        for partition in range(count)
    ]
    results = await engine.produce(written, transactional_id=transactor.transactional_id)
    assert {result.error for result in results} == {ErrorCode.NONE}
    offsets = longest_offsets(topic.name, TRANSACTION_PLACES_MAX - count)
    results = await engine.transactions.commit_offsets(
        transactor.transactional_id, transactor.producer_id, transactor.epoch, ID, offsets, announces=True
    )
    assert {result.error for result in results} == {ErrorCode.NONE}
    await transactor.commit()
    assert await values(engine, topic.name, count - 1) == [b"a", b"b"]


async def test_the_row_of_a_transactional_id(engine_of: Engines) -> None:
    """The most partitions and groups, and the most sequences of aborted writes: what is one too many is refused."""
    engine = engine_of()
    topic = await topic_of(engine, ABORTED_SEQUENCES_MAX + 1)
    transactor = await Transactor(engine, f"{topic.topic_id}{ID[:-18]}", bumps=False).init()
    named = (transactor.transactional_id, transactor.producer_id, transactor.epoch)
    store = engine.transactions.store
    row = await store.read(transactor.transactional_id)
    assert row is not None
    remembered = {PartitionId(topic.topic_id, number): SEQUENCE_MAX for number in range(ABORTED_SEQUENCES_MAX)}
    begun = replace(row, aborted_sequences=remembered, groups=tuple(map(long_id, range(TRANSACTION_PLACES_MAX - 1))))
    partitions = [TopicPartition(topic.name, number) for number in range(ABORTED_SEQUENCES_MAX)]
    await engine.catalog.put(store.write_operation(row, store.next_version(row, begun)))
    assert not any((await engine.transactions.add_partitions(*named, partitions[:TRANSACTION_PLACES_MAX])).values())
    row = await store.read(transactor.transactional_id)
    assert row is not None
    full = replace(row, groups=tuple(map(long_id, range(TRANSACTION_PLACES_MAX))))
    await engine.catalog.put(store.write_operation(row, store.next_version(row, full)))
    with pytest.raises(KafkaError) as refused:
        await engine.transactions.add_offsets(*named, "one more")
    assert refused.value.code is ErrorCode.TRANSACTION_ABORTABLE
    await engine.transactions.end(*named, commit=False, bump=False)
    with pytest.raises(KafkaError) as refused:
        await engine.transactions.add_partitions(*named, [TopicPartition(topic.name, ABORTED_SEQUENCES_MAX)])
    assert refused.value.code is ErrorCode.PRODUCER_FENCED
    assert (await transactor.init()).epoch > 0, "the next instance has an empty row"


async def test_offsets_of_many_partitions_with_the_longest_metadata(engine_of: Engines) -> None:
    engine = engine_of(offset_metadata_bytes_max=OFFSET_METADATA_BYTES_MAX)
    topic = await topic_of(engine, 150)
    offsets = longest_offsets(topic.name, 150)
    group = f"{topic.topic_id}{ID[:400]}"
    results = await engine.offsets.commit(group, offsets)
    assert {result.error for result in results} == {ErrorCode.NONE}
    offsets_read = await engine.offsets.fetch(group, list(offsets))
    assert all(result.committed == offsets[result.partition] for result in offsets_read)


def longest_offsets(topic: str, count: int) -> dict[TopicPartition, OffsetAndMetadata]:
    longest = OffsetAndMetadata(OFFSET_MAX, 2**31 - 1, "m" * OFFSET_METADATA_BYTES_MAX)
    return {TopicPartition(topic, partition): longest for partition in range(count)}


@pytest.mark.parametrize("is_spilled", [True, False], ids=["spilled rows", "segments"])
async def test_a_swap_of_the_most_rows(engine_of: Engines, is_spilled: bool) -> None:
    engine = engine_of()
    partition = PartitionId((await topic_of(engine)).topic_id, 0)
    row_offsets = 50 if plays_moto(engine) else SPILL_ENTRIES_MAX
    base = OFFSET_MAX - 10**6
    old = [
        row_of(base + number * row_offsets, base + (number + 1) * row_offsets, is_spilled=is_spilled)
        for number in range(ROWS_REPLACED_MAX)
    ]
    items = [(Key(partition_pk(partition), index_sk(row.base_offset)), encode_index_row(row)) for row in old]
    await put_all(engine.index._log, items)
    lease = await engine.leases.take(partition)
    assert lease is not None
    end = old[-1].end_offset
    new = row_of(base, end, is_spilled=False)
    await engine.index.replace_rows(lease, old, [new], merged_offset=end if is_spilled else None)
    assert await engine.index.rows_from(partition, 0) == [new]


def row_of(base: int, end: int, *, is_spilled: bool) -> IndexRow:
    entry = TailEntry(b"\xff" * 16, 2**31, 2**31, 1, 2**62, 2**62, PRODUCER_EPOCH_MAX, SEQUENCE_MAX, 2**62)
    row = IndexRow(base, end, 2**62, 2**62, 2**62, running_max_timestamp_ms=2**62)
    if is_spilled:
        return replace(row, entries=(entry,) * (end - base))
    return replace(row, segment_id=base.to_bytes(16, "big"), index_bytes=2**31, segment_started_ms=2**62)


async def test_users_rules_and_configurations_of_the_longest_names(engine_of: Engines) -> None:
    engine = engine_of()
    user = "é" * (NAME_BYTES_MAX // 2)
    credential = ScramCredential(b"s" * SALT_BYTES_MAX, 4096, b"k" * 64, b"k" * 64)
    await engine.users.put(User(user, {SaslMechanism.SCRAM_SHA_256: credential}))
    assert [user_found.name for user_found in await engine.users.list()] == [user]
    await engine.users.delete(user, SaslMechanism.SCRAM_SHA_256)
    with pytest.raises(KafkaError) as refused:
        await engine.users.put(User(user, {SaslMechanism.SCRAM_SHA_256: replace(credential, salt=bytes(2_000))}))
    assert refused.value.code is ErrorCode.UNACCEPTABLE_CREDENTIAL
    rule = AclBinding(
        ResourceType.GROUP,
        "é" * 1_024,
        PatternType.PREFIXED,
        "User:" + "u" * 2_043,
        "h" * 2_048,
        AclOperation.ALL,
        AclPermission.ALLOW,
    )
    await engine.acls.create(rule)
    assert list(await engine.acls.list()) == [rule]
    with pytest.raises(KafkaError) as refused:
        await engine.acls.create(replace(rule, name="é" * 1_025))
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert await engine.acls.delete(AclFilter()) == [rule]
    group, value = f"{name_of(1)[:36]}{ID[:400]}", "0" * (VALUE_CHARACTERS_MAX - 4) + "5000"
    await engine.group_configs.alter(group, set={"share.session.timeout.ms": value.replace("5", "6")})
    topic = await topic_of(engine)
    numbers = [name for name in DEFINITIONS if name.endswith(".ms")]
    await engine.topics.alter_configs(topic.name, set=dict.fromkeys(numbers, value))
    for alter in (
        lambda text: engine.topics.alter_configs(topic.name, set={"retention.ms": text}),
        lambda text: engine.group_configs.alter(group, set={"share.session.timeout.ms": text}),
        lambda text: engine.group_configs.alter(group, set={"share.auto.offset.reset": f"by_duration:P{text}D"}),
    ):
        with pytest.raises(KafkaError) as refused:
            await alter("0" * 500_000 + "6000")
        assert refused.value.code is ErrorCode.INVALID_CONFIG


async def test_schemas_of_the_largest_size_and_the_most_versions(engine_of: Engines) -> None:
    engine = engine_of()
    subjects = Subjects(engine.catalog, SystemClock(), SystemRng())
    unique = f"n{name_of(0)[:32]}"
    subject = f"{unique}{'é' * ((SUBJECT_NAME_BYTES_MAX - len(unique)) // 2)}"
    references = []
    for number in range(SCHEMA_REFERENCES_MAX):
        referred_to = Reference(f"{unique}.r{number}", f"{unique}-{number}", 1)
        await subjects.register(referred_to.subject, Schema("AVRO", record_of(referred_to.name)))
        references.append(referred_to)
    size = len(record_of(f"{unique}.largest", uses=references))
    size += sum(len(reference.name) + len(reference.subject) for reference in references)
    doc = "x" * (SCHEMA_BYTES_MAX - size)
    first = await subjects.register(subject, avro(record_of(f"{unique}.largest", doc, references), references))
    with pytest.raises(RegistryError) as refused:
        await subjects.register(subject, avro(record_of(f"{unique}.largest", doc + "x", references), references))
    assert refused.value.error_code == 42209
    versions = [SubjectVersion(number, first.stored.schema_id) for number in range(1, SUBJECT_VERSIONS_MAX)]
    row = Subject(subject, rev=1, versions=tuple(versions))
    await engine.catalog.put(Put(subject_key(subject), encode_subject(row)))
    last = await subjects.register(subject, Schema("AVRO", record_of(f"{unique}.largest", "y", references[:0])))
    assert last.version == SUBJECT_VERSIONS_MAX
    with pytest.raises(RegistryError) as refused:
        await subjects.register(subject, Schema("AVRO", record_of(f"{unique}.largest", "z")))
    assert refused.value.error_code == 42205


def avro(text: str, references: Sequence[Reference]) -> Schema:
    return Schema("AVRO", text, tuple(references))


def record_of(name: str, doc: str = "", uses: Sequence[Reference] = ()) -> str:
    fields = [{"name": f"f{number}", "type": ["null", reference.name]} for number, reference in enumerate(uses)]
    namespace, _, short = name.rpartition(".")
    return json.dumps({"type": "record", "name": short, "namespace": namespace, "doc": doc, "fields": fields})


CALLS: list[Callable[[Engine], Awaitable[Any]]] = [
    lambda engine: engine.offsets.commit("g" * 901, {}),
    lambda engine: engine.offsets.fetch("é" * 451, []),
    lambda engine: engine.transactions.init("t" * 901, 1_000),
    lambda engine: engine.produce([ProducePartition("t" * 250, 0, batch([b"x"]))]),
]


@pytest.mark.parametrize("call", CALLS, ids=["commit", "fetch", "init", "produce"])
async def test_longer_names_are_refused_before_the_store(
    engine_of: Engines, call: Callable[[Engine], Awaitable[Any]]
) -> None:
    """The fixture asks that nothing was rejected; a KafkaError or a result with an error is the answer."""
    try:
        results = await call(engine_of())
    except KafkaError:
        return
    assert all(result.error is not ErrorCode.NONE for result in at_least(1, results))
