"""confluent-kafka: every task of the matrix."""

from functools import partial

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic
from report import BASE_MS, CONFIG, COUNT, LIMIT_S, PREFIX, SERVERS, Absent, logins, run

PLAIN = {"bootstrap.servers": SERVERS["plain"]}


def produce(topic, codec="none", extra=PLAIN, count=COUNT, **more):
    errors = []
    producer = ck.Producer({**extra, "compression.type": codec, "linger.ms": 20, "message.timeout.ms": 30000, **more})
    for i in range(count):
        producer.produce(
            topic,
            b"%d" % i,
            key=b"k%d" % i,
            headers=[("h", b"v")],
            on_delivery=lambda error, _: error and errors.append(error),
        )
    left = producer.flush(LIMIT_S)
    if errors or left:
        raise RuntimeError(f"{errors[:1]}, {left} left")


def consume(topic, count, group, extra=PLAIN, **more):
    consumer = ck.Consumer(
        {**extra, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False, **more}
    )
    consumer.subscribe([topic])
    taken = []
    for _ in range(int(LIMIT_S * 2)):
        for message in consumer.consume(count, 0.5):
            if message.error():
                raise ck.KafkaException(message.error())
            taken.append(message)
        if len(taken) >= count:
            break
    if len(taken) != count:
        raise RuntimeError(f"{len(taken)} of {count} records")
    consumer.commit(asynchronous=False)
    consumer.close()
    return taken


def log_append_time():
    topic = f"{PREFIX}-log_append_time"
    produce(topic)
    kinds = {message.timestamp()[0] for message in consume(topic, COUNT, f"{PREFIX}-lat")}
    assert kinds == {ck.TIMESTAMP_LOG_APPEND_TIME}, kinds


def transaction():
    producer = ck.Producer({**PLAIN, "transactional.id": f"{PREFIX}-x"})
    producer.init_transactions(LIMIT_S)
    for number, commits in enumerate((True, False, True)):
        producer.begin_transaction()
        producer.produce(f"{PREFIX}-transaction", b"%d" % number)
        producer.commit_transaction(LIMIT_S) if commits else producer.abort_transaction(LIMIT_S)


def login(servers, protocol, mechanism):
    extra = {
        "bootstrap.servers": servers,
        "security.protocol": protocol,
        "sasl.mechanism": mechanism,
        "sasl.username": CONFIG["user"],
        "sasl.password": CONFIG["password"],
        "ssl.ca.location": CONFIG["ca"],
    }
    produce(f"{PREFIX}-login", extra=extra, count=1, **{"message.timeout.ms": 6000})


def topics():
    admin = AdminClient(PLAIN)
    made, deleted = f"{PREFIX}-made", f"{PREFIX}-gone"
    for future in admin.create_topics([NewTopic(made, 3, 1), NewTopic(deleted, 1, 1)]).values():
        future.result(LIMIT_S)
    assert len(admin.list_topics(made, 10).topics[made].partitions) == 3
    admin.create_partitions([NewPartitions(made, 4)])[made].result(LIMIT_S)
    admin.delete_topics([deleted])[deleted].result(LIMIT_S)


def configs():
    admin = AdminClient(PLAIN)
    topic = f"{PREFIX}-none"
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, {"retention.ms": "123456789"})
    admin.alter_configs([resource])[resource].result(LIMIT_S)
    described = ConfigResource(ConfigResource.Type.TOPIC, topic)
    assert admin.describe_configs([described])[described].result(LIMIT_S)["retention.ms"].value == "123456789"


def groups():
    admin = AdminClient(PLAIN)
    group = f"{PREFIX}-g"
    if not hasattr(admin, "list_consumer_groups"):
        raise Absent("no group calls in this version")
    assert group in {group.group_id for group in admin.list_consumer_groups().result(LIMIT_S).valid}
    assert admin.describe_consumer_groups([group])[group].result(LIMIT_S).group_id == group
    admin.delete_consumer_groups([f"{PREFIX}-lat"])[f"{PREFIX}-lat"].result(LIMIT_S)


def times():
    consumer = ck.Consumer({**PLAIN, "group.id": f"{PREFIX}-t"})
    (offset_found,) = consumer.offsets_for_times([ck.TopicPartition(f"{PREFIX}-group", 0, BASE_MS + 10_000)], LIMIT_S)
    assert offset_found.offset == 5, offset_found


run(
    {
        **{codec: partial(produce, f"{PREFIX}-{codec}", codec) for codec in ("none", "gzip", "snappy", "lz4", "zstd")},
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
