"""A service with something to see, for the tests of the console and for its screenshots."""

from __future__ import annotations

import json
import time
from typing import Any

import odradek
from odradek.adapters.memory.job_runs import MemoryJobRuns
from odradek.client.serializers import AvroSerializer, HttpRegistry
from odradek.client.serializers.registry import Schema
from odradek.model.acl import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from odradek.model.job_run import Job, JobRun, QueryMetrics
from odradek.model.quota import QuotaEntity

NAMES = ("Ada Lovelace", "Grace Hopper", "Zoë Krüger", "李小龙", "محمد علي", "Ὀδυσσεύς", "O'Brien & <b>Sons</b>")
LONG_NAME = ("a-very-long-name-" * 20)[:249]
COUNTRIES = ("CH", "DE", "US", "JP", "BR")
FIRST = {
    "type": "record",
    "name": "Payment",
    "fields": [{"name": "id", "type": "string"}, {"name": "cents", "type": "long"}],
}
SECOND = {**FIRST, "fields": [*FIRST["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"


def fill(configs: dict[str, Any], *, orders: int = 500) -> None:
    """Create topics, records, groups, schemas, a user, a quota and a transaction.

    orders             JSON in 3 partitions, with headers
    payments           Avro in 1 partition, with two versions of its schema
    things             text, bytes, nulls, markup, right-to-left, a long value
    an-empty-topic     nothing
    a name of 249 characters

    Triggers: `new-orders` calls a URL that refuses connections, `audit-payments` is paused.
    Tables: `accounts`, `profiles`.
    """
    with odradek.Admin(**configs) as admin:
        admin.create_topics(
            [
                odradek.NewTopic("orders", 3, configs={"retention.ms": "86400000"}),
                odradek.NewTopic("payments", 1),
                odradek.NewTopic("things", 1),
                odradek.NewTopic("accounts", 2, configs={"cleanup.policy": "compact"}),
                odradek.NewTopic("an-empty-topic", 1),
                odradek.NewTopic(LONG_NAME, 1),
            ]
        )
        admin.create_user("ada", "correct horse battery staple")
        admin.alter_client_quotas(QuotaEntity(user="ada"), {"producer_byte_rate": 5_000_000.0})
    with odradek.Producer(**configs) as producer:
        for number in range(orders):
            producer.send(
                "orders", _order(number), b"customer-%d" % (number % 17), headers=[("trace-id", b"%08x" % number)]
            )
            if number < 40:
                producer.send("accounts", b'{"balance": %d}' % number, b"account-%d" % (number % 9))
        _things(producer)
        producer.flush()
    _payments(configs)
    _groups(configs)
    _triggers(configs)
    _tables(configs)
    _transaction(configs)


def _order(number: int) -> bytes:
    order = {
        "order_id": number,
        "customer": {"name": NAMES[number % len(NAMES)], "country": COUNTRIES[number % len(COUNTRIES)]},
        "items": [{"sku": f"SKU-{number % 31:03d}", "quantity": 1 + number % 4, "price": round(9.5 + number % 90, 2)}],
        "paid": number % 3 == 0,
    }
    return json.dumps(order, ensure_ascii=False).encode()


def _things(producer: Any) -> None:
    producer.send("things", b"plain text", b"a key")
    producer.send("things", bytes(range(64)), b"\xff\xfe")
    producer.send("things", None, b"a tombstone")
    producer.send("things", HOSTILE.encode(), HOSTILE.encode(), headers=[(HOSTILE, HOSTILE.encode()), ("null", None)])
    producer.send("things", "مرحبا بالعالم".encode(), "שלום".encode())
    producer.send("things", json.dumps({"long": "x" * 5000, "nested": {"a": [1, 2, {"b": None}]}}).encode(), b"long")
    producer.send("things", b"", b"")


def _payments(configs: dict[str, Any]) -> None:
    keys = {name: value for name, value in configs.items() if name.startswith("aws_")}
    registry = HttpRegistry.discover(configs["bootstrap_servers"], **keys)
    for schema in (FIRST, SECOND):
        registry.register("payments-value", Schema(json.dumps(schema)))
    write = AvroSerializer(registry, json.dumps(SECOND))
    with odradek.Producer(**configs, value_serializer=write) as producer:
        for number in range(30):
            note = "gift" if number % 7 == 0 else None
            producer.send("payments", {"id": f"p-{number}", "cents": 100 * number, "note": note}, b"%d" % number)
        producer.flush()


def _groups(configs: dict[str, Any]) -> None:
    with odradek.Admin(**configs) as admin:
        places = admin.describe_topics(["orders"])["orders"].partitions
        admin.alter_consumer_group_offsets("billing", dict.fromkeys(places, 20))
        admin.alter_consumer_group_offsets("analytics", {places[0]: 5})
        admin.alter_consumer_group_offsets("odd id/with <b>markup</b> & more", {places[1]: 1})
        admin.create_topics([odradek.NewTopic("mails-dead", 1)])
        admin.alter_topic_configs("mails-dead", {"errors.deadletterqueue.group.enable": "true"})
        dead = {"errors.deadletterqueue.topic.name": "mails-dead", "errors.deadletterqueue.copy.record.enable": "true"}
        admin.alter_group_configs("mails", {"share.auto.offset.reset": "earliest", **dead})
    _dead_letters(configs)


def _dead_letters(configs: dict[str, Any]) -> None:
    """Reject three records of payments in the group mails, and leave others in flight."""
    consumer = odradek.ShareConsumer(
        **configs, group_id="mails", share_acknowledgement_mode="explicit", share_acquire_mode="record_limit"
    )
    consumer.__enter__()
    consumer.subscribe(["payments"])
    rejected = 0
    while rejected < 3:
        polled = consumer.poll(2_000, max_records=3)
        for record in (record for records in polled.values() for record in records):
            consumer.acknowledge(record, odradek.AcknowledgeType.REJECT)
            rejected += 1
        consumer.commit_sync()
    consumer.poll(2_000, max_records=5)  # in flight until it is closed
    OPEN.append(consumer)


def _transaction(configs: dict[str, Any]) -> None:
    """Leave a transaction open: its producer is not closed, since closing aborts it."""
    producer = odradek.Producer(**configs, transactional_id="nightly-import")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("accounts", b'{"balance": 1}', b"account-1").result(30)
    OPEN.append(producer)


def _triggers(configs: dict[str, Any]) -> None:
    with odradek.Admin(**configs) as admin:
        admin.create_trigger(
            "new-orders",
            "orders",
            "http://127.0.0.1:9/new-orders",
            starting_position="TRIM_HORIZON",
            filters=['{"value": {"customer": {"country": ["CH"]}}}', '{"value": {"paid": [true]}}'],
            on_failure="topic:mails-dead",
        )
        hostile = {"filters": [json.dumps({"value": {HOSTILE: [HOSTILE]}})]}
        admin.create_trigger("hostile", "things", f"http://127.0.0.1:9/{HOSTILE.replace(' ', '')}", **hostile)
        admin.create_trigger("audit-payments", "payments", "http://127.0.0.1:9/audit")
        admin.pause_trigger("audit-payments")


def _tables(configs: dict[str, Any]) -> None:
    with odradek.Admin(**configs) as admin:
        admin.create_topics([odradek.NewTopic("profiles", 1, configs={"cleanup.policy": "compact"})])
        with odradek.Producer(**configs) as producer:
            producer.send("profiles", json.dumps({HOSTILE: HOSTILE, "name": "محمد علي"}).encode(), HOSTILE.encode())
            producer.send("profiles", b"not json", b"odd")
        admin.serve_table("accounts")
        admin.serve_table("profiles")
        for name in ("accounts", "profiles"):
            for _ in range(200):  # it reads its topic from the start
                if admin.describe_table(name).lag == 0:
                    break
                time.sleep(0.05)


_HOUR_MS = 3_600_000
_NOON_MS = 1_795_435_200_000  # 2026-11-23 12:00 UTC


def glue_jobs() -> MemoryJobRuns:
    """Return jobs of a deployment: one that runs, has run and failed, and one that never ran."""
    sql = Job("odradek-test-sql_job", "G.025X", 2, 2880, "6.0", {"metrics": "emf"})
    runs = [
        JobRun(sql.name, "jr_0a", "SUCCEEDED", _NOON_MS - 50 * _HOUR_MS, _NOON_MS - 26 * _HOUR_MS, 86_400, 12.0,
               "G.025X", 2, 0, "", {"script": "s3://bucket/top.sql"}),
        JobRun(sql.name, "jr_1b", "FAILED", _NOON_MS - 20 * _HOUR_MS, _NOON_MS - 19 * _HOUR_MS, 3_600, 0.5, "G.025X",
               2, 0, "SystemExit: line 3, column 8: unknown column 'contry': did you mean country? " + HOSTILE,
               {"script": "s3://bucket/" + "very-long-name-" * 9 + ".sql", "registry_password": "hush"}),
        JobRun(sql.name, "jr_" + "2c" * 32, "RUNNING", _NOON_MS - 9 * _HOUR_MS, 0, 32_400, 4.5, "G.025X", 2, 0, "",
               {"script": "s3://bucket/top.sql"}),
    ]  # fmt: skip
    lag = tuple((_NOON_MS + 60_000 * minute, float((minute * 37) % 90)) for minute in range(-60, 1))
    definitions = [
        QueryMetrics(sql.name, "paid_by_country", _NOON_MS, 1_240.0, 830.0, 5.0, 1_832.0, 74.0, 2.0, lag),
        QueryMetrics(sql.name, "sessions-" * 9, _NOON_MS, 0.4, 61_000.0, 2_430_112.0, 9.1e8, None, None),
    ]
    word_count = Job("odradek-test-word_count", "G.025X", 2, 0, "6.0", {})
    return MemoryJobRuns([sql, word_count], runs, definitions, started_ms=_NOON_MS)


OPEN: list[Any] = []
"""Clients with an open transaction or with records in flight: close them at the end."""


def acl(principal: str = "User:ada", topic: str = "orders", operation: AclOperation = AclOperation.READ) -> AclBinding:
    """Return an ACL that allows an operation on a topic."""
    return AclBinding(ResourceType.TOPIC, topic, PatternType.LITERAL, principal, "*", operation, AclPermission.ALLOW)
