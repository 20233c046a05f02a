"""aiokafka: every task of the matrix."""

import asyncio
from functools import partial

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.helpers import create_ssl_context
from report import BASE_MS, CONFIG, COUNT, LIMIT_S, PREFIX, SERVERS, logins, run

PLAIN = {"bootstrap_servers": SERVERS["plain"]}


def sync(call, *arguments):
    """A task that runs a coroutine within the limit."""
    return lambda: asyncio.run(asyncio.wait_for(call(*arguments), LIMIT_S))


async def produce(topic, codec=None, extra=PLAIN, count=COUNT):
    async with AIOKafkaProducer(**extra, compression_type=codec, linger_ms=20) as producer:
        sent = [
            await producer.send(topic, b"%d" % i, key=b"k%d" % i, headers=[("h", b"v")], partition=0)
            for i in range(count)
        ]
        await asyncio.gather(*sent)


async def consume(topic, count, group):
    async with AIOKafkaConsumer(
        topic, **PLAIN, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        taken = []
        while len(taken) < count:
            for records in (await consumer.getmany(timeout_ms=500)).values():
                taken += records
        assert len(taken) == count, f"{len(taken)} of {count} records"
        await consumer.commit()
    return taken


async def log_append_time():
    topic = f"{PREFIX}-log_append_time"
    await produce(topic)
    kinds = {record.timestamp_type for record in await consume(topic, COUNT, f"{PREFIX}-lat")}
    assert kinds == {1}, kinds


async def transaction():
    async with AIOKafkaProducer(**PLAIN, transactional_id=f"{PREFIX}-x") as producer:
        for number, commits in enumerate((True, False, True)):
            await producer.begin_transaction()
            await producer.send_and_wait(f"{PREFIX}-transaction", b"%d" % number)
            await (producer.commit_transaction() if commits else producer.abort_transaction())


async def login(servers, protocol, mechanism):
    extra = {
        "bootstrap_servers": servers,
        "security_protocol": protocol,
        "sasl_mechanism": mechanism,
        "sasl_plain_username": CONFIG["user"],
        "sasl_plain_password": CONFIG["password"],
    }
    if protocol == "SASL_SSL":
        extra["ssl_context"] = create_ssl_context(cafile=CONFIG["ca"])
    await produce(f"{PREFIX}-login", extra=extra, count=1)


def with_admin(call):
    from aiokafka.admin import AIOKafkaAdminClient

    async def run_it():
        admin = AIOKafkaAdminClient(**PLAIN)
        await admin.start()
        try:
            await call(admin)
        finally:
            await admin.close()

    return sync(run_it)


async def topics(admin):
    try:
        from aiokafka.admin import NewPartitions, NewTopic
    except ImportError:  # 0.8
        from kafka.admin import NewPartitions, NewTopic

    made, deleted = f"{PREFIX}-made", f"{PREFIX}-gone"
    await admin.create_topics([NewTopic(made, 3, 1), NewTopic(deleted, 1, 1)])
    assert {made, deleted} <= set(await admin.list_topics())
    await admin.create_partitions({made: NewPartitions(4)})
    await admin.delete_topics([deleted])


async def configs(admin):
    try:
        from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
    except ImportError:  # 0.8
        from kafka.admin import ConfigResource, ConfigResourceType

    topic = f"{PREFIX}-none"
    await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "123456789"})])
    assert "123456789" in str(await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)]))


async def groups(admin):
    group = f"{PREFIX}-g"
    assert group in str(await admin.list_consumer_groups())
    assert group in str(await admin.describe_consumer_groups([group]))
    if hasattr(admin, "delete_consumer_groups"):
        await admin.delete_consumer_groups([f"{PREFIX}-lat"])


async def times():
    async with AIOKafkaConsumer(**PLAIN) as consumer:
        tp = TopicPartition(f"{PREFIX}-group", 0)
        assert (await consumer.offsets_for_times({tp: BASE_MS + 10_000}))[tp].offset == 5


run(
    {
        **{
            codec: sync(produce, f"{PREFIX}-{codec}", None if codec == "none" else codec)
            for codec in ("none", "gzip", "snappy", "lz4", "zstd")
        },
        "log_append_time": sync(log_append_time),
        "group": sync(consume, f"{PREFIX}-group", 40, f"{PREFIX}-g"),
        "transaction": sync(transaction),
        **{name: sync(partial(login, *login_arguments)) for name, *login_arguments in logins()},
        "topics": with_admin(topics),
        "configs": with_admin(configs),
        "groups": with_admin(groups),
        "times": sync(times),
    }
)
