"""Every form does what it says, leaves a line in the audit trail, and shows a refusal beside what was typed."""

from __future__ import annotations

import json
from pathlib import Path

import odradek
import pytest
from odradek.console.app import ROUTES
from odradek.local.threaded import ThreadedService
from odradek.model.topic_partition import TopicPartition

from tests.integration.console.conftest import Browser, browsing, problem
from tests.support.console import FIRST, SECOND


async def test_a_topic_from_its_creation_to_its_deletion(browser: Browser, service: ThreadedService) -> None:
    html = await browser.done("/topics", name="life", partitions="2", config__cleanup__policy="compact", more="")
    assert "Topic life was created" in html
    html = await browser.done("/topics/life/configuration", config__segment__ms="60000", was__segment__ms="604800000")
    assert "Changed segment.ms" in html
    await browser.done("/topics/life/partitions", count="3")
    await browser.done("/topics/life/configuration", config__cleanup__policy="delete", was__cleanup__policy="compact")
    await browser.done(
        "/topics/life/produce", key="k", value='{"a": 1}', value_form="json", headers="h: v", partition="2"
    )
    with odradek.Admin(**service.client_config) as admin:
        configs = admin.describe_configs(["life"])["life"]
        assert configs["segment.ms"].value == "60000"
        assert admin.describe_topics(["life"])["life"].partition_count == 3
    html = await browser.get("/topics/life/records/2/0")
    assert "&#34;a&#34;: 1" in html
    assert '<td class="name" dir="auto">h</td>' in html

    await browser.done("/topics/life/delete-records", partition="all", before="", confirm="life")
    with odradek.Admin(**service.client_config) as admin:
        assert admin.list_offsets({TopicPartition("life", 2): "earliest"})[TopicPartition("life", 2)].offset == 1
    html = await browser.done("/topics/life/delete", confirm="life")
    assert "Topic life was deleted" in html
    assert ">life</a>" not in html
    audit = await browser.get("/audit")
    assert all(
        text in audit for text in ("create topic", "configure topic", "add partitions", "produce", "delete topic")
    )


REFUSED = [
    ("/topics", {"name": "orders"}, "already exists"),
    ("/topics", {"name": "not valid!"}, "invalid topic name"),
    ("/topics", {"name": "t", "partitions": "many"}, "partitions must be a whole number"),
    ("/topics", {"name": "t", "more": "no equals sign"}, "use name=value"),
    ("/topics", {"name": "t", "more": "nonsense.setting=1"}, "nonsense.setting"),
    ("/topics-chosen", {"do": "delete"}, "tick 1 to 500 topics"),
    ("/topics-chosen/change", {"topics": "orders", "do": "delete", "confirm": "yes"}, "type delete 1 topic to confirm"),
    ("/topics/orders/configuration", {"config__retention__ms": "soon"}, "retention.ms"),
    ("/topics/orders/partitions", {"count": "1"}, "partitions"),
    ("/topics/orders/delete", {"confirm": "order"}, "type orders to confirm"),
    ("/topics/orders/delete-records", {"confirm": "", "partition": "all"}, "type orders to confirm"),
    ("/topics/orders/delete-records", {"confirm": "orders", "partition": "all", "before": "99999"}, "ends at offset"),
    ("/topics/orders/produce", {"value": "{", "value_form": "json"}, "not json"),
    ("/topics/orders/produce", {"value": "zz", "value_form": "hex"}, "not hex"),
    ("/topics/orders/produce", {"value": "{}", "value_form": "avro"}, "orders-value"),
    ("/topics/orders/produce", {"kind": "lines", "lines": '{"value": "a"}\n{"valu": 1}'}, "line 2"),
    ("/topics/orders/produce", {"kind": "lines", "lines": " \n"}, "there are no records"),
    ("/topics/orders/produce", {"value": "x", "partition": "7"}, "7"),
    ("/groups/reset", {"id": "billing", "to": "earliest", "shift": "3"}, "choose where to"),
    ("/groups/redrive", {"id": "billing"}, "has no dead letters"),
    ("/groups/delete", {"id": "billing", "confirm": "no"}, "type billing to confirm"),
    ("/connectors/save", {"is_new": "1", "group": "none", "name": "", "config": "{}"}, "give the connector a name"),
    ("/connectors/save", {"is_new": "1", "group": "none", "name": "x", "config": "{"}, "not JSON"),
    ("/sql/start", {"name": "a/b", "text": "x"}, "invalid name"),
    ("/sql/start", {"name": "wrong", "text": "SELECT nothing FROM nowhere;"}, "line 1"),
    ("/sql/stop", {"name": "nobodys"}, "no job"),
    ("/schemas/register", {"subject": "payments-value", "text": "{", "kind": "AVRO"}, "Invalid schema"),
    ("/schemas/register", {"subject": "payments-value", "text": "", "kind": "AVRO"}, "empty"),
    ("/schemas/register", {"subject": "new", "text": "{}", "references": "only two"}, "name subject version"),
    ("/schemas/delete", {"subject": "payments-value", "version": "0", "confirm": ""}, "type payments-value"),
    ("/schemas/level", {"subject": "nothing-here-but-ok"}, ""),
    (
        "/security/acls",
        {"principal": "ada", "operation": "read", "resource": "topic", "name": "x"},
        "invalid principal",
    ),
    (
        "/security/acls",
        {"principal": "User:a", "operation": "fly", "resource": "topic", "name": "x"},
        "unknown operation",
    ),
    (
        "/security/acls",
        {"principal": "User:a", "operation": "read", "resource": "topic", "name": ""},
        "name the resource",
    ),
    ("/security/users", {"user": "eve", "password": "a", "again": "b"}, "passwords differ"),
    ("/security/users/delete", {"user": "nobody"}, "nobody"),
    ("/security/quotas", {"kind": "user", "name": "x", "value": "-1"}, "value must be a whole number"),
    ("/transactions/abort", {"transactional_id": ""}, ""),
]


@pytest.mark.parametrize(("path", "fields", "text"), REFUSED)
async def test_a_refusal_is_shown_with_what_was_typed(
    browser: Browser, path: str, fields: dict[str, str], text: str
) -> None:
    response = await browser.post(path, **fields)

    assert 400 <= response.status_code < 500, response.status_code
    assert text in problem(response.text).replace("&#39;", "'")
    assert "Traceback" not in response.text
    assert "b" not in response.text or "password" not in fields or 'value="a"' not in response.text, (
        "no password comes back"
    )


def test_every_form_is_in_the_lists_of_this_module() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    forms = {route.path for route in ROUTES if "POST" in (route.methods or ())}

    elsewhere = {"/theme", "/sign-out", "/schemas/check"}  # test_door.py, and below
    elsewhere |= {path for path in forms if path.startswith("/connectors/")}  # test_connectors.py
    elsewhere |= {path for path in forms if path.startswith(("/triggers", "/tables", "/jobs"))}  # theirs
    named = {path for path in forms if f'"{path}"' in text or f'"{path.replace("{name}", "orders")}"' in text}
    assert forms - named - elsewhere == set()


async def test_records_from_lines_and_again(browser: Browser) -> None:
    lines = '{"key": "a", "value": {"n": 1}, "headers": [["h", "1"]]}\n\n{"key": "b", "value_base64": "AAE="}'
    await browser.done("/topics", name="lines", partitions="1")

    html = await browser.done("/topics/lines/produce", kind="lines", lines=lines)
    assert "2 records were written to lines" in html
    form = await browser.get("/topics/lines/produce?again=0:1")
    assert ">0001</textarea>" in form
    html = await browser.done("/topics/lines/produce", key="b", value="0001", value_form="hex")
    assert "offset 2" in html


async def test_offsets_are_reset_after_a_dry_run_that_changes_nothing(
    browser: Browser, service: ThreadedService
) -> None:
    tp = TopicPartition("orders", 0)
    with odradek.Admin(**service.client_config) as admin:
        admin.alter_consumer_group_offsets("replay", {tp: 7})

        html = await browser.get("/groups/reset?id=replay&shift=-3")
        assert "-3" in html
        assert admin.list_consumer_group_offsets("replay")[tp].offset == 7
        await browser.done("/groups/reset", id="replay", shift="-3", to="")
        assert admin.list_consumer_group_offsets("replay")[tp].offset == 4
        await browser.done("/groups/delete", id="replay", confirm="replay")
        assert "replay" not in [listing.group_id for listing in admin.list_consumer_groups()]


async def test_a_schema_evolves_if_it_is_compatible_and_not_otherwise(browser: Browser) -> None:
    subject = "evolving-value"
    await browser.done("/schemas/register", subject=subject, kind="AVRO", text=json.dumps(FIRST))
    html = await browser.done("/schemas/register", subject=subject, kind="AVRO", text=json.dumps(SECOND))
    assert "Difference to version 1" in html
    wrong = json.dumps({**FIRST, "fields": [*FIRST["fields"], {"name": "must", "type": "string"}]})

    checked = await browser.post("/schemas/check", subject=subject, kind="AVRO", text=wrong, fragment="1")
    assert "It would be refused" in checked.text
    assert "<html" not in checked.text
    refused = await browser.post("/schemas/register", subject=subject, kind="AVRO", text=wrong)
    assert refused.status_code == 422
    assert "must" in refused.text, "what was typed is still there"

    assert "NONE" in await browser.done("/schemas/level", subject=subject, level="NONE")
    await browser.done("/schemas/register", subject=subject, kind="AVRO", text=wrong)
    await browser.done("/schemas/delete", subject=subject, version="3")
    html = await browser.done("/schemas/delete", subject=subject, version="0", confirm=subject)
    assert subject not in html.partition("<main")[2].partition('role="status"')[2].partition("</p>")[2]


async def test_a_script_is_checked_and_nothing_is_run(browser: Browser, service: ThreadedService) -> None:
    stream = "CREATE STREAM s (n INT) WITH (kafka_topic='not_there', value_format='json');\n"
    valid = await browser.post("/sql", text=stream + "CREATE TABLE t AS SELECT n, COUNT(*) AS c FROM s GROUP BY n;")
    wrong = await browser.post("/sql", text=stream + "SELECT <b>nope</b> FROM s;", fragment="1")
    unknown = await browser.post("/sql", text=stream + "SELECT nope FROM s;", fragment="1")

    assert "2 valid statements" in valid.text
    assert "line 2" in wrong.text
    assert "<b>nope" not in wrong.text
    assert "has no column NOPE" in unknown.text
    assert "<html" not in unknown.text
    assert "no statements" in (await browser.post("/sql", text="")).text
    assert (await browser.post("/sql", text="x" * 100_001)).status_code == 400
    with odradek.Admin(**service.client_config) as admin:
        assert "not_there" not in admin.list_topics()


async def test_users_acls_and_quotas_are_made_and_removed() -> None:
    rule = {"principal": "User:bob", "operation": "read", "resource": "topic", "name": "t", "pattern": "prefixed"}
    with odradek.local() as service:
        async with browsing(service.client_config) as browser:
            assert "bob" in await browser.done("/security/users", user="bob", password="secret", again="secret")
            assert "User:bob" in await browser.done("/security/acls", **rule)
            why = await browser.get("/security?tab=explain&principal=User:bob&name=t-1")
            assert "allow User:bob to read on t…" in why
            assert "bob" in await browser.done(
                "/security/quotas", kind="user", name="bob", quota="consumer_byte_rate", value="1000"
            )
            await browser.done("/security/quotas", user="bob", quota="consumer_byte_rate", value="")
            await browser.done("/security/acls/delete", host="*", may="allow", **rule)
            await browser.done("/security/users/delete", user="bob")
            assert "There are no quotas" in await browser.get("/security?tab=quotas")
            assert "There are no ACLs" in await browser.get("/security")
            assert "There are no users" in await browser.get("/security?tab=users")


async def test_an_abort_fences_the_producer() -> None:
    with odradek.local() as service:
        with odradek.Admin(**service.client_config) as admin:
            admin.create_topics([odradek.NewTopic("t", 1)])
        producer = odradek.Producer(**service.client_config, transactional_id="stuck")
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"never").result(30)
        async with browsing(service.client_config) as browser:
            assert "Ongoing" in await browser.get("/transactions")
            assert "Ongoing" not in await browser.done("/transactions/abort", transactional_id="stuck")
        with pytest.raises(odradek.KafkaError):
            producer.commit_transaction()
        producer.close()


async def test_an_audit_file_has_each_change_and_no_value(service: ThreadedService, tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    async with browsing(service.client_config, audit_file=str(path)) as browser:
        await browser.done("/topics/things/produce", key="k", value="a secret value")
        await browser.post("/security/users", user="mallory", password="hush", again="hush")
        await browser.post("/topics/things/partitions", count="100000000")

    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["action"] for line in lines][:2] == ["produce", "create user"]
    assert "secret" not in path.read_text()
    assert "hush" not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
