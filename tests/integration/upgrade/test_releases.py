"""This code reads what each release stored and goes on with it; what a newer release stored, it refuses untouched.

The stores are files of tests/golden/releases, made by the release itself (tests/golden/release.py). What is asked of
share groups and schemas is in test_releases_share_and_schemas.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from odradek.adapters.memory.task_queue import MemoryTaskQueue
from odradek.engine.audit.store import audit_store
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode, KafkaError, UnknownVersion
from odradek.format import item_keys
from odradek.format.scram import credential_of, salt_password
from odradek.model.classic_group import ClassicIdentity, ClassicJoin
from odradek.model.group import JOIN_EPOCH, GroupHeartbeat
from odradek.model.log import DeleteRecordsPartition, EpochEndPartition, FetchPartition, ProducePartition
from odradek.model.quota import DEFAULT, PRODUCER_BYTE_RATE, QuotaEntity
from odradek.model.record import Record
from odradek.model.streams import TaskId, Tasks
from odradek.model.topic_partition import OffsetAndMetadata, PartitionId, TopicPartition
from odradek.model.user import SaslMechanism
from odradek.registry.compatibility import Level
from odradek.registry.schemas import Schema
from odradek.served.reads import Bounds, Freshness
from odradek.served.wiring import wire_tables

from tests.golden.release import RELEASES, Watcher
from tests.support.clients.share_member import ShareMember
from tests.support.clients.streams_member import StreamsMember, settle
from tests.support.clients.transactional_producer import Transactor, committed
from tests.support.engine import batch, produce, read_all
from tests.support.stores.releases import ALL, Stored, open_release

PLACE = TopicPartition("plain", 0)


def shown(record: Record) -> list[Any]:
    texts = [None if text_or_null is None else text_or_null.decode() for text_or_null in (record.key, record.value)]
    return [record.offset, record.timestamp_ms, *texts]


async def assert_records(stored: Stored, engine: Engine, *, compacted: bool = False) -> None:
    for topic, partition, expected_rows in stored.expected["records"]:
        rows_read = [shown(record) for record in await read_all(engine, topic, partition)][: len(expected_rows)]
        if topic == "compacted" and compacted:
            newest = {key: row_expected for row_expected in expected_rows if (key := row_expected[2])}
            assert all(row_read in expected_rows for row_read in rows_read)
            assert all(row_newest in rows_read for row_newest in newest.values())
        else:
            assert rows_read == expected_rows, (topic, partition)


@pytest.mark.parametrize("release", ALL)
async def test_all_that_a_release_stored_is_read(release: str) -> None:
    stored = await open_release(release)
    engine, expected = stored.engine(), stored.expected
    await assert_records(stored, engine)
    report = await audit_store(engine)
    assert report.findings == []
    assert report.checked["segments"] >= 2
    tps = [TopicPartition("spread", number) for number in range(3)]
    offsets_read = [
        result.committed and result.committed.offset for result in await engine.offsets.fetch("spread", tps)
    ]
    assert offsets_read == expected["spread_committed"]
    grown = await engine.topics.resolve("grown")
    assert [(growth.before, growth.after) for growth in grown.growths] == [(2, 6)]
    assert list(await engine.topics.marks_of(grown, grown.growths[0])) == expected["grown"] == [0, 1]
    [fenced] = await engine.produce([ProducePartition("grown", 1, batch([b"by two"]), chosen_by=2)])
    assert fenced.error is ErrorCode.FENCED_LEADER_EPOCH
    for group, offset in expected["committed"].items():
        assert await committed(engine, group, "plain") == offset
    [acl] = (await engine.acls.current()).acls
    assert (acl.principal, acl.name) == ("User:ada", "pl")
    user = await engine.users.get("ada")
    assert user is not None
    credential = user.credentials[SaslMechanism.SCRAM_SHA_256]
    salted = salt_password(SaslMechanism.SCRAM_SHA_256, "lovelace", credential.salt, credential.iterations)
    assert credential_of(SaslMechanism.SCRAM_SHA_256, salted, credential.salt, credential.iterations) == credential
    assert (await engine.users.secret()).hex() == expected["login_secret"], "salts of unknown names stay"
    quotas = await engine.client_quotas.list()
    assert [[*entity, values] for entity, values in quotas.items()] == expected["quotas"]
    [ended] = await engine.epoch_end_offsets([EpochEndPartition("led", 0, 1)])
    assert (ended.leader_epoch, ended.end_offset) == (1, 1)
    assert [registered_broker.broker.broker_id for registered_broker in await engine.brokers._everyone()] == [7]
    assert await engine.numbered_batches.last_committed("query") == 3
    assert {row.transactional_id for row in await engine.transactions.list()} == {"done", "open"}


@pytest.mark.parametrize("release", ALL)
async def test_clients_go_on_where_they_were(release: str) -> None:
    stored = await open_release(release)
    engine, expected = stored.engine(), stored.expected
    for producer_id, (sequence, base_offset) in expected["last_batches"].items():
        again = await produce(engine, "plain", 0, batch([b"?"], producer=(int(producer_id), 0, sequence)))
        assert (again.error, again.base_offset) == (ErrorCode.NONE, base_offset), "a duplicate is known"
        after = await produce(engine, "plain", 0, batch([b"next"], producer=(int(producer_id), 0, sequence + 1)))
        assert after.error is ErrorCode.NONE
    for producer_id, (sequence, base_offset) in expected["spread"].items():
        for number, offset in ((0, sequence), (1, sequence), (2, sequence + 1)):
            sent = await produce(engine, "spread", number, batch([b"?"], producer=(int(producer_id), 0, offset)))
            assert sent.error is ErrorCode.NONE
            assert (sent.base_offset == base_offset) == (offset == sequence), "a duplicate is known"
    fresh = (await engine.producer_ids.init()).producer_id
    assert fresh > max(map(int, expected["last_batches"]))

    member, epoch = expected["group"]["member"], expected["group"]["epoch"]
    beat = GroupHeartbeat("group", member, epoch, rebalance_timeout_ms=60_000, subscribed_topic_names=["plain"])
    assert (await engine.groups.heartbeat(beat)).error is ErrorCode.NONE
    offsets = {PLACE: OffsetAndMetadata(6)}
    [done] = await engine.offsets.commit("group", offsets, member_id=member, member_epoch=epoch)
    assert done.error is ErrorCode.NONE
    member, generation = expected["group"]["classic"]
    assert (await engine.classic_groups.heartbeat(ClassicIdentity("classic", member, generation))) is ErrorCode.NONE

    name, producer_id, epoch = expected["open"]
    left = Transactor(engine, name, True, producer_id, epoch)
    left.sequences["plain", 1] = 1
    await left.send("plain", 1, b"the same transaction")
    await left.commit()
    assert [r.value and r.value[:7] for r in (await read_all(engine, "plain", 1))[-2:]] == [b"pending", b"the sam"]
    assert [r.value for r in await read_all(engine, "told", 0)] == [b"told 0"]
    assert await committed(engine, "simple", "plain", 1) == 1

    uploaded = await engine.numbered_batches.upload([ProducePartition("numbered", 0, batch([b"again"]))])
    assert not await engine.numbered_batches.commit("query", 3, uploaded), "its number has been committed"
    assert await engine.numbered_batches.commit("query", 4, uploaded)
    await assert_records(stored, engine)


@pytest.mark.parametrize("release", ALL)
async def test_a_streams_group_goes_on_where_it_stood(release: str) -> None:
    """Its first member has yet to give up the tasks that the second waits for."""
    stored = await open_release(release)
    engine, tasks = stored.engine(), stored.expected["streams_tasks"]
    assert await committed(engine, "app", "plain", 1) == 4
    one, two = streams_members(stored, engine)
    assert await one.commit(TopicPartition("plain", tasks[0][1]), 1) is ErrorCode.NONE
    one.tasks = Tasks(frozenset(TaskId(*task) for task in tasks))
    await settle([one, two], stored.clock)
    assert one.last.member_epoch == max(stored.expected["streams"].values())
    assert sorted([*one.tasks.active, *two.tasks.active]) == [
        TaskId(subtopology, n) for subtopology in "01" for n in (0, 1)
    ]
    assert one.tasks.active == {TaskId(*task) for task in tasks}
    [described] = await engine.streams_groups.describe(["app"])
    assert (described.group_type, described.state) == ("streams", "Stable")


def streams_members(stored: Stored, engine: Engine) -> list[StreamsMember]:
    """The members of the release's streams group, at the epochs that they know."""
    members = [StreamsMember(engine, name, group_id="app") for name in stored.expected["streams"]]
    for member in members:
        member.epoch = stored.expected["streams"][member.member_id]
    return members


@pytest.mark.parametrize("release", ALL)
async def test_a_trigger_is_woken_where_a_release_left_it_waiting(release: str) -> None:
    stored = await open_release(release)
    queue = MemoryTaskQueue()
    watcher = Watcher(stored.engine(wakes=queue), queue)
    trigger = await watcher.parts.triggers.get("orders")
    assert (trigger.topic, trigger.secret, trigger.is_enabled) == (
        "watched",
        stored.expected["trigger"]["secret"],
        True,
    )

    assert not (await produce(watcher.engine, "watched", 0, batch([b"one more"]))).error

    assert await watcher.called() == [stored.expected["trigger"]["offset"]]


@pytest.mark.parametrize("release", ALL)
async def test_a_table_goes_on_where_a_release_left_it(release: str) -> None:
    stored = await open_release(release)
    engine = stored.engine()
    parts = wire_tables(engine, stored.store.rows, MemoryTaskQueue())
    expected = stored.expected["table"]
    assert not (await produce(engine, "scores", 0, batch([b"second", b"new"], keys=[b"a", b"b"]))).error
    for key, value in (("a", "second"), ("long", expected["long"]), ("b", "new")):
        response = await parts.reader.get("scores", key, Bounds(), Freshness({0: expected["covered"] + 1}))
        assert [row.value for row in response.rows] == [value]
    [large] = (await parts.reader.get("scores", "large", Bounds(), Freshness({}))).rows
    assert large.error.startswith("the value of 450000 bytes is too large for a table")


@pytest.mark.parametrize("release", ALL)
async def test_an_offset_that_a_release_told_is_kept(release: str) -> None:
    stored = await open_release(release)
    engine = stored.engine()
    assert not (await produce(engine, "told", 0, batch([b"of another"]))).error
    with pytest.raises(KafkaError, match="TRANSACTION_ABORTABLE"):
        await engine.transactions.end(*stored.expected["open"], commit=True, bump=True)


@pytest.mark.parametrize("release", ALL)
async def test_maintenance_takes_up_what_a_release_left(release: str) -> None:
    stored = await open_release(release)
    engine = stored.engine()
    stored.clock.advance(600)
    done = (report := await engine.maintenance.run()).done
    assert not report.failures
    assert min(done["segments_merged"], done["segments_compacted"], done["topics_removed"]) > 0
    stored.clock.advance(3 * 3600)
    report = await engine.maintenance.run()
    assert not report.failures
    assert report.done["uploads_swept"]
    await assert_records(stored, stored.engine(2), compacted=True)
    assert (await audit_store(engine)).findings == []
    for _ in range(3):  # and the log goes on over the old segments
        assert not (await produce(engine, "plain", 0, batch([b"new" * 300]))).error
    stored.clock.advance(600)
    assert not (await engine.maintenance.run()).failures
    await assert_records(stored, stored.engine(3), compacted=True)


# --- what a newer release stored ----------------------------------------------------------------------------------

Work = Callable[[Stored, Engine], Awaitable[Any]]


def _newer(table: str, pk: str, sk: str) -> Callable[[dict[str, Any]], None]:
    """The items whose keys match become items of a format that does not exist yet."""

    def change(document: dict[str, Any]) -> None:
        hits = [row[2] for row in document["tables"][table] if re.fullmatch(pk, row[0]) and re.fullmatch(sk, row[1])]
        assert hits, (table, pk, sk)
        for item in hits:
            assert item["v"] >= 1, "every stored format has a version"
            item["v"] += 1

    return change


async def _produce(stored: Stored, engine: Engine) -> Any:
    return await produce(engine, "plain", 0, batch([b"x"]))


async def _produce_evicted(stored: Stored, engine: Engine) -> Any:
    head = await engine.index.read_head(PartitionId((await engine.topics.resolve("plain")).topic_id, 0))
    assert head is not None
    last = stored.expected["last_batches"]
    producer_id, (sequence, _) = next(entry for entry in last.items() if int(entry[0]) not in head.producers)
    return await produce(engine, "plain", 0, batch([b"x"], producer=(int(producer_id), 0, sequence + 1)))


async def _fetch(stored: Stored, engine: Engine) -> Any:
    [result] = await engine.fetch([FetchPartition("plain", 0, 0)])
    return result


async def _fetch_spread(stored: Stored, engine: Engine) -> Any:
    [result] = await engine.fetch([FetchPartition("spread", 1, 0)])
    return result


async def _produce_spread_evicted(stored: Stored, engine: Engine) -> Any:
    return await produce(engine, "spread", 1, batch([b"x"], producer=(901, 0, 1)))


async def _produce_spread(stored: Stored, engine: Engine) -> Any:
    return await produce(engine, "spread", 1, batch([b"x"]))


async def _delete_records(stored: Stored, engine: Engine) -> Any:
    [result] = await engine.delete_records([DeleteRecordsPartition("plain", 0, 2)])
    return result


async def _heartbeat(stored: Stored, engine: Engine) -> Any:
    return await engine.groups.heartbeat(
        GroupHeartbeat("group", "other", JOIN_EPOCH, rebalance_timeout_ms=60_000, subscribed_topic_names=["plain"])
    )


async def _commit_simple(stored: Stored, engine: Engine) -> Any:
    [result] = await engine.offsets.commit("simple", {PLACE: OffsetAndMetadata(9)})
    return result


async def _commit(stored: Stored, engine: Engine) -> Any:
    group_expected = stored.expected["group"]
    [result] = await engine.offsets.commit(
        "group", {PLACE: OffsetAndMetadata(9)}, member_id=group_expected["member"], member_epoch=group_expected["epoch"]
    )
    return result


async def _join_classic(stored: Stored, engine: Engine) -> Any:
    join = ClassicJoin("classic", "", "consumer", (("range", b""),), 10_000, 10_000, requires_known_member_id=False)
    return await engine.classic_groups.join(join)


async def _end(stored: Stored, engine: Engine) -> Any:
    await engine.transactions.end(*stored.expected["open"], commit=True, bump=True)


async def _init(stored: Stored, engine: Engine) -> Any:
    await engine.transactions.init("open", 60_000)


async def _number(stored: Stored, engine: Engine) -> Any:
    await engine.numbered_batches.commit("query", 9, [])


async def _lead(stored: Stored, engine: Engine) -> Any:
    await engine.epochs.history(
        PartitionId((topic := await engine.topics.resolve("led")).topic_id, 0),
        await engine.index.read_head(PartitionId(topic.topic_id, 0)),  # type: ignore[arg-type]
    )


async def _configure(stored: Stored, engine: Engine) -> Any:
    await engine.topics.alter_configs("plain", set={"retention.ms": "1"})


async def _acls(stored: Stored, engine: Engine) -> Any:
    await engine.acls.current()


async def _user(stored: Stored, engine: Engine) -> Any:
    await engine.users.create("ada", "another")


async def _limit(stored: Stored, engine: Engine) -> Any:
    await engine.client_quotas.alter(QuotaEntity("ada", DEFAULT), {PRODUCER_BYTE_RATE: 5})


async def _derive_salts(stored: Stored, engine: Engine) -> Any:
    await engine.users.secret()


async def _share_join(stored: Stored, engine: Engine) -> Any:
    return await ShareMember(engine, "new", "work", group_id="queue").beat()


async def _share_fetch(stored: Stored, engine: Engine) -> Any:
    holder = ShareMember(engine, "holder", "work", group_id="queue")
    _, holder.session_epoch = stored.expected["queue"]["holder"]
    response = await holder.request()
    return next((result for result in response.results if result.error), response)


async def _share_describe(stored: Stored, engine: Engine) -> Any:
    await engine.share_offsets.describe("queue", None)


async def _streams_heartbeat(stored: Stored, engine: Engine) -> Any:
    member, _ = streams_members(stored, engine)
    await member.beat()
    return member.last


async def _configure_group(stored: Stored, engine: Engine) -> Any:
    await engine.group_configs.alter("queue", set={"share.auto.offset.reset": "latest"})


async def _register(stored: Stored, engine: Engine) -> Any:
    await stored.schemas.register("plain-value", Schema("AVRO", '"string"'))


async def _configure_schemas(stored: Stored, engine: Engine) -> Any:
    await stored.schemas.set_config("open-value", level=Level.FULL)


async def _delete_schemas(stored: Stored, engine: Engine) -> Any:
    await stored.schemas.delete_subject("other-value")


async def _maintain(stored: Stored, engine: Engine) -> Any:
    report = await engine.maintenance.run()
    failures = [failure for failure in report.failures if "upgrade" in failure]
    if failures:
        raise UnknownVersion(failures[0])


async def _delete_pages(stored: Stored, engine: Engine) -> Any:
    topic = await engine.topics.resolve("spread")
    await engine.index.delete_old_pages(PartitionId(topic.topic_id, 0))


UUID = "[0-9a-f-]{36}"


async def _look_up(stored: Stored, engine: Engine) -> Any:
    parts = wire_tables(engine, stored.store.rows, MemoryTaskQueue())
    return await parts.reader.get("scores", "a", Bounds(), Freshness({}))


CASES: list[tuple[str, str, str, Work]] = [
    ("log", UUID + "#.", "head", _produce),
    ("log", UUID + "#.", "head", _fetch),
    ("log", UUID + "#.", "head", _delete_records),
    ("log", UUID + "#.", "head", _end),
    ("log", UUID + "#.", "head", _produce_spread),
    ("log", UUID + "#.", "c#.*", _fetch_spread),
    ("log", UUID + "#.", "x#.*", _delete_pages),
    ("log", UUID + "#.", "i#.*", _fetch),
    ("log", UUID + "#.", "p#.*", _produce_evicted),
    ("log", UUID + "#.", "p#.*", _produce_spread_evicted),
    ("log", UUID + "#.", "e#.*", _lead),
    ("log", UUID + "#.", "(head|lease)", _maintain),
    ("log", "txn#open", ".*", _end),
    ("groups", "g#group", "group", _heartbeat),
    ("groups", "g#group", "m#.*", _heartbeat),
    ("groups", "g#group", "o#.*", _commit),
    ("groups", "g#simple", "o#.*", _commit_simple),
    ("groups", "g#classic", "group", _join_classic),
    ("groups", "g#classic", "gs#.*", _join_classic),
    ("groups", "g#app", "group", _streams_heartbeat),
    ("groups", "g#app", "gt", _streams_heartbeat),
    ("groups", "g#app", "m#.*", _streams_heartbeat),
    ("groups", "g#queue", "group", _share_join),
    ("groups", "g#queue", "m#.*", _share_join),
    ("groups", "g#queue", "s#.*", _share_fetch),
    ("groups", "g#queue", "s#.*", _share_describe),
    ("groups", "g#queue", "t#.*", _share_fetch),
    ("catalog", "group-configs", ".*", _share_join),
    ("catalog", "group-configs", ".*", _share_fetch),
    ("catalog", "group-configs", ".*", _configure_group),
    ("catalog", "registry", "config", _register),
    ("catalog", "registry-subjects", ".*", _register),
    ("catalog", "registry-subjects", ".*", _delete_schemas),
    ("catalog", "registry-schemas", ".*", _register),
    ("catalog", "registry-configs", ".*", _configure_schemas),
    ("catalog", "served-tables", ".*", _look_up),
    ("rows", ".*#.*", ".*", _look_up),
    ("rows", "[0-9a-f]*", "[0-9]*", _look_up),
    ("catalog", "topics", ".*", _configure),
    ("catalog", "topics", ".*", _produce),
    ("catalog", "txn-ids", ".*", _init),
    ("catalog", "txn-ids", ".*", _end),
    ("catalog", "batches", ".*", _number),
    ("catalog", "acls", ".*", _acls),
    ("catalog", "users", ".*", _user),
    ("catalog", "quotas", ".*", _limit),
    ("catalog", "logins", ".*", _derive_salts),
    ("catalog", "sweep", "floor", _maintain),
]


@pytest.mark.parametrize(
    ("table", "pk", "sk", "work"), CASES, ids=[f"{t}-{pk[:8]}-{sk}-{w.__name__[1:]}" for t, pk, sk, w in CASES]
)
async def test_a_newer_format_is_refused_and_changes_nothing(table: str, pk: str, sk: str, work: Work) -> None:
    stored = await open_release(ALL[-1], _newer(table, pk, sk))
    engine = stored.engine(append_attempts_max=4, group_attempts_max=4)
    newer = {
        (name, *row[:2]): row[2]
        for name, rows in stored.dump()["tables"].items()
        for row in rows
        if row[2].get("v") == 2
    }
    try:
        result = await work(stored, engine)
    except (UnknownVersion, KafkaError) as refused:
        said = str(refused)
    else:
        assert result.error, "it must not look like success"
        said = f"{ErrorCode(result.error).name} {getattr(result, 'message', '')}"
    assert re.search("upgrade|KAFKA_STORAGE_ERROR|NOT_AVAILABLE|COORDINATOR", said), said
    after = {(name, *row[:2]): row[2] for name, rows in stored.dump()["tables"].items() for row in rows}
    assert {key: after.get(key) for key in newer} == newer


def test_every_format_of_the_store_is_in_the_last_release() -> None:
    """The kinds of docs/formats/item_keys.md, so that a new kind of item is not forgotten by the generator."""
    document = json.loads((RELEASES / ALL[-1] / "store.json").read_text())
    kinds = {
        f"{table} {re.sub(UUID + '#.', '<partition>', pk).split('#')[0]} {re.match(r'[a-z]+#?|', sk)[0]}"  # type: ignore[index]
        for table, rows in document["tables"].items()
        for pk, sk, _ in rows
        if table != "catalog"
    } | {f"catalog {pk}" for pk, _, _ in document["tables"]["catalog"]}
    assert kinds >= {
        *(f"log <partition> {sk}" for sk in ("head", "c#", "x#", "i#", "p#", "e#", "lease", "clean")),
        *(f"groups g {sk}" for sk in ("group", "gt", "m#", "o#", "gs#", "s#", "t#")),
        *(f"catalog {value}" for name, value in vars(item_keys).items() if name.endswith("_PK")),
    }
    assert any(key.endswith(".index") for key, _, _ in document["objects"])
    without_version = {
        f"{pk.split('#')[0]} {sk}" if pk == "registry" else pk.split("#")[0]
        for rows in document["tables"].values()
        for pk, sk, item in rows
        if "v" not in item
    }
    unversioned = {"w", "topic-ids", "deleted-topics", "counters", "registry counter", "registry-guids"}
    assert without_version == unversioned, "docs/formats/item_keys.md says why"
