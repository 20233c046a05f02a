"""kafka-python: every task of the matrix."""

import time
from functools import partial

import kafka
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions, NewTopic
from report import BASE_MS, CONFIG, COUNT, LIMIT_S, PREFIX, SERVERS, Absent, logins, run

PLAIN = {"bootstrap_servers": SERVERS["plain"]}
MAJOR = int(kafka.__version__.partition(".")[0])


def produce(topic, codec=None, extra=PLAIN, count=COUNT, **more):
    producer = kafka.KafkaProducer(**extra, compression_type=codec, linger_ms=20, **more)
    sent = [producer.send(topic, b"%d" % i, key=b"k%d" % i, headers=[("h", b"v")]) for i in range(count)]
    for future in sent:
        future.get(LIMIT_S)
    producer.close()


def consume(topic, count, group):
    consumer = kafka.KafkaConsumer(
        topic, **PLAIN, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    )
    taken, until_s = [], time.monotonic() + LIMIT_S
    while len(taken) < count and time.monotonic() < until_s:
        for records in consumer.poll(500).values():
            taken += records
    assert len(taken) == count, f"{len(taken)} of {count} records"
    consumer.commit()
    consumer.close()
    return taken


def log_append_time():
    topic = f"{PREFIX}-log_append_time"
    produce(topic)
    kinds = {record.timestamp_type for record in consume(topic, COUNT, f"{PREFIX}-lat")}
    assert kinds == {1}, kinds


def transaction():
    try:
        producer = kafka.KafkaProducer(**PLAIN, transactional_id=f"{PREFIX}-x")
    except AssertionError as unknown:
        raise Absent("no transactions in this version") from unknown
    producer.init_transactions()
    for number, commits in enumerate((True, False, True)):
        producer.begin_transaction()
        producer.send(f"{PREFIX}-transaction", b"%d" % number)
        producer.flush()
        producer.commit_transaction() if commits else producer.abort_transaction()
    producer.close()


def login(servers, protocol, mechanism):
    extra = {
        "bootstrap_servers": servers,
        "security_protocol": protocol,
        "sasl_mechanism": mechanism,
        "sasl_plain_username": CONFIG["user"],
        "sasl_plain_password": CONFIG["password"],
    }
    if protocol == "SASL_SSL":
        extra["ssl_cafile"] = CONFIG["ca"]
    produce(f"{PREFIX}-login", extra=extra, count=1)


def topics():
    admin = KafkaAdminClient(**PLAIN)
    made, deleted = f"{PREFIX}-made", f"{PREFIX}-gone"
    admin.create_topics([NewTopic(made, 3, 1), NewTopic(deleted, 1, 1)])
    assert {made, deleted} <= set(admin.list_topics())
    admin.create_partitions({made: NewPartitions(4)})
    admin.delete_topics([deleted])


def configs():
    admin = KafkaAdminClient(**PLAIN)
    topic = f"{PREFIX}-none"
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "123456789"})])
    assert "123456789" in str(admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)]))


def groups():
    admin = KafkaAdminClient(**PLAIN)
    group = f"{PREFIX}-g"
    listing = admin.list_groups() if hasattr(admin, "list_groups") else admin.list_consumer_groups()
    assert group in str(listing), listing
    described = getattr(admin, "describe_groups", None) or admin.describe_consumer_groups
    assert group in str(described([group]))
    (getattr(admin, "delete_groups", None) or admin.delete_consumer_groups)([f"{PREFIX}-lat"])


def times():
    consumer = kafka.KafkaConsumer(**PLAIN)
    tp = kafka.TopicPartition(f"{PREFIX}-group", 0)
    assert consumer.offsets_for_times({tp: BASE_MS + 10_000})[tp].offset == 5


run(
    {
        **{
            codec: partial(produce, f"{PREFIX}-{codec}", None if codec == "none" else codec)
            for codec in ("none", "gzip", "snappy", "lz4", "zstd")
        },
        "log_append_time": log_append_time,
        "group": lambda: consume(f"{PREFIX}-group", 40, f"{PREFIX}-g"),
        "transaction": transaction,
        **{name: partial(login, *login_arguments) for name, *login_arguments in logins()},
        "topics": topics,
        "configs": configs,
        "groups": groups,
        "times": times,
    }
)
