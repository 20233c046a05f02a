"""The rights of whoever uses a console, on every route: a principal without an ACL sees nothing and changes nothing."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import odradek
import pytest
from odradek.console.app import ROUTES
from odradek.local.threaded import ThreadedService
from odradek.model.acl import AclOperation

from tests.integration.console.conftest import as_principal, browsing
from tests.integration.console.test_triggers_and_jobs import URL
from tests.support.console import acl

SECRET = "the-hidden-value"
OWN = ("/theme", "/sign-out")  # of the session itself
CHECKS = ("/sql", "/schemas/check", "/connectors/check")  # they run nothing and read nothing of the log
FORMS: dict[str, dict[str, str]] = {
    "/topics": {"name": "made"},
    "/topics-chosen": {"topic": "secret", "do": "delete"},
    "/topics-chosen/change": {"topics": "secret", "do": "delete", "confirm": "delete 1 topic"},
    "/topics/{name}/configuration": {"config__retention__ms": "1000"},
    "/topics/{name}/partitions": {"count": "3"},
    "/topics/{name}/delete-records": {"confirm": "secret", "partition": "all"},
    "/topics/{name}/delete": {"confirm": "secret"},
    "/topics/{name}/produce": {"value": "x"},
    "/groups/redrive": {"id": "shared"},
    "/groups/reset": {"id": "hidden", "to": "earliest"},
    "/groups/delete": {"id": "hidden", "confirm": "hidden"},
    "/schemas/register": {"subject": "secret-value", "text": '"string"', "kind": "AVRO"},
    "/schemas/level": {"subject": "secret-value", "level": "NONE"},
    "/schemas/delete": {"subject": "secret-value", "version": "0", "confirm": "secret-value"},
    "/sql/start": {"name": "job", "text": "SELECT 1;"},
    "/sql/stop": {"name": "job"},
    "/connectors/save": {"is_new": "1", "group": "made", "name": "c",
                         "config": '{"connector.class": "FileStreamSource", "file": "/x", "topic": "secret"}'},
    "/connectors/steer": {"group": "hidden-connect", "name": "c", "do": "pause"},
    "/connectors/offsets": {"group": "hidden-connect", "name": "c", "do": "reset", "confirm": "c"},
    "/connectors/delete": {"group": "hidden-connect", "name": "c", "confirm": "c"},
    "/tables": {"name": "secret"},
    "/tables/steer": {"name": "kept-table", "do": "stop"},
    "/tables/drop": {"name": "kept-table", "confirm": "kept-table"},
    "/triggers": {"name": "made", "topic": "secret", "function": URL},
    "/triggers/steer": {"name": "kept", "do": "pause"},
    "/triggers/reset": {"name": "kept", "to": "earliest"},
    "/triggers/delete": {"name": "kept", "confirm": "kept"},
    "/jobs/start": {"name": "odradek-test-word_count"},
    "/jobs/stop": {"name": "odradek-test-word_count"},
    "/security/acls": {"principal": "User:nobody", "operation": "all", "resource": "topic", "name": "*"},
    "/security/acls/delete": {"principal": "User:root", "operation": "all", "resource": "topic", "name": "secret"},
    "/security/users": {"user": "nobody", "password": "long enough", "again": "long enough"},
    "/security/users/delete": {"user": "ada"},
    "/security/quotas": {"kind": "user", "name": "ada", "value": "1"},
    "/transactions/abort": {"transactional_id": "hidden-tx"},
}  # fmt: skip
PAGES = sorted(
    re.sub(r"\{\w+:\w+\}", "0", route.path).replace("{name}", "secret")
    for route in ROUTES
    if "GET" in (route.methods or ())
)


def whole(service: ThreadedService) -> dict[str, Any]:
    """Return what a change could change."""
    tp = odradek.TopicPartition("secret", 0)
    with odradek.Admin(**service.client_config) as admin:
        return {
            "topics": {name: topic.partition_count for name, topic in admin.describe_topics().items()},
            "configs": {name: entry.value for name, entry in admin.describe_configs(["secret"])["secret"].items()},
            "ends": {to: admin.list_offsets({tp: to})[tp].offset for to in ("earliest", "latest")},
            "committed": admin.list_consumer_group_offsets("hidden"),
            "acls": sorted(map(str, admin.describe_acls())),
            "users": admin.list_users(),
            "quotas": str(admin.describe_client_quotas()),
            "tables": [(table.name, table.state) for table in admin.list_tables()],
            "triggers": [(trigger.name, trigger.state) for trigger in admin.list_triggers()],
        }


@pytest.fixture(scope="module")
def closed() -> Any:
    with odradek.local() as service:
        with odradek.Admin(**service.client_config) as admin:
            admin.create_topics([odradek.NewTopic("secret", 2)])
            admin.create_user("ada", "correct horse battery staple")
            admin.alter_consumer_group_offsets("hidden", {odradek.TopicPartition("secret", 0): 1})
            admin.create_topics([odradek.NewTopic("rows", 1, configs={"cleanup.policy": "compact"})])
            admin.serve_table("kept-table", "rows")
            admin.create_trigger("kept", "secret", URL)
            admin.pause_trigger("kept")
            admin.create_acls([acl("User:root", "secret", AclOperation.ALL)])
        with odradek.Producer(**service.client_config) as producer:
            producer.send("secret", SECRET.encode(), partition=0).result(30)
        yield service


def test_every_form_of_the_console_is_in_the_list() -> None:
    forms = {route.path for route in ROUTES if "POST" in (route.methods or ())}
    assert forms == {*FORMS, *OWN, *CHECKS}


async def test_a_principal_without_rights_changes_nothing(closed: ThreadedService) -> None:
    before = whole(closed)
    async with browsing(as_principal(closed, "User:nobody"), jobs=False) as browser:
        for path, fields in FORMS.items():
            response = await browser.post(path.replace("{name}", "secret"), **fields)
            assert 400 <= response.status_code < 500, f"{path}: {response.status_code}"
            assert "Traceback" not in response.text, path
        done = [line for line in browser.state.audit.lines() if line.outcome == "done"]
        assert done == []
        noted = {line.action for line in browser.state.audit.lines()}
    assert {"create topic", "delete topic", "create trigger", "delete trigger", "create ACL"} <= noted
    assert whole(closed) == before


async def test_a_principal_without_rights_sees_nothing(closed: ThreadedService) -> None:
    queries = {
        "/topics/secret/compare": "?a=0:0&b=0:0",
        "/groups/detail": "?id=hidden",
        "/triggers/detail": "?name=kept",
        "/tables/detail": "?name=kept-table",
        "/topics/secret/records/search": "?q=hid",
        "/topics/secret/records/download": "?as=csv",
        "/sql": "?tab=lookup&topic=secret&key=a",
        "/security": "?tab=users",
    }
    endless = ("/events", "/groups/lag")  # they show sums of what the pages list
    async with browsing(as_principal(closed, "User:nobody"), jobs=False) as browser:
        for path in PAGES:
            if path in endless:
                continue
            response = await asyncio.wait_for(browser.client.get(path + queries.get(path, "")), 60)
            assert response.status_code < 500, f"{path}: {response.text[:300]}"
            for hidden in (SECRET, "User:root", ">ada<", ">kept<", ">hidden<"):
                assert hidden not in response.text, f"{hidden} in {path}"
