"""Rights to triggers, and the findings of `odradek doctor` on them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from odradek.model.acl import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from odradek.model.trigger import PartitionStatus, Trigger, TriggerStatus
from odradek.operations.health.checks import trigger_findings
from odradek.triggers.api import Request, TriggersApi
from odradek.triggers.calls import Call, CallRefused
from odradek.triggers.targets import HandlerTarget

from tests.support.services.dispatched import Dispatched

URL = "https://example.org/hook"
CLUSTER = (ResourceType.CLUSTER, "kafka-cluster", AclOperation.ALTER)
TOPIC = (ResourceType.TOPIC, "orders", AclOperation.READ)
GROUP = (ResourceType.GROUP, "trigger.t", AclOperation.READ)


class Api:
    """The API of a service with ACLs."""

    def __init__(self) -> None:
        self.dispatched = Dispatched(lambda: None, acl_cache_ms=0, super_users="User:root")  # type: ignore[arg-type, return-value]
        self.api = TriggersApi(self.dispatched.parts.triggers, self.dispatched.engine.acls)

    async def allow(self, principal: str, *rules: tuple[ResourceType, str, AclOperation]) -> None:
        for resource_type, name, operation in rules:
            await self.dispatched.engine.acls.create(
                AclBinding(resource_type, name, PatternType.LITERAL, principal, "*", operation, AclPermission.ALLOW)
            )

    async def ask(self, principal: str, method: str, path: str, document: Any = None) -> tuple[int, dict[str, Any]]:
        body = b"" if document is None else json.dumps(document).encode()
        return await self.api.answer(Request(method, path, body, principal, "192.0.2.1"))


@pytest.fixture
async def api() -> Api:
    api = Api()
    await api.dispatched.engine.topics.create("orders", 1)
    await api.dispatched.engine.topics.create("failed", 1)
    await api.allow("User:ada", CLUSTER, TOPIC, GROUP)
    return api


@pytest.mark.parametrize("missing", [CLUSTER, TOPIC, GROUP])
async def test_creating_a_trigger_needs_the_cluster_the_topic_and_the_group(api: Api, missing: Any) -> None:
    await api.allow("User:bob", *({CLUSTER, TOPIC, GROUP} - {missing}))
    document = {"name": "t", "topic": "orders", "function": URL}
    status, response = await api.ask("User:bob", "POST", "/", document)
    assert status == 403
    assert response["error"].endswith("AUTHORIZATION_FAILED")
    assert (await api.ask("User:root", "GET", "/"))[1] == {"triggers": []}
    assert (await api.ask("User:ada", "POST", "/", document))[0] == 200


async def test_a_failure_topic_needs_the_right_to_write_it(api: Api) -> None:
    document = {"name": "t", "topic": "orders", "function": URL, "on_failure": "topic:failed"}
    assert (await api.ask("User:ada", "POST", "/", document))[0] == 403
    await api.allow("User:ada", (ResourceType.TOPIC, "failed", AclOperation.WRITE))
    assert (await api.ask("User:ada", "POST", "/", document))[0] == 200


async def test_a_trigger_is_seen_and_changed_by_who_may(api: Api) -> None:
    created = await api.ask("User:ada", "POST", "/", {"name": "t", "topic": "orders", "function": URL})
    assert created[1]["secret"].startswith("whsec_")
    await api.allow("User:eve", (ResourceType.GROUP, "trigger.t", AclOperation.DESCRIBE))
    assert (await api.ask("User:eve", "GET", "/"))[1] == {"triggers": []}
    await api.allow("User:eve", (ResourceType.TOPIC, "orders", AclOperation.DESCRIBE))
    assert [trigger["name"] for trigger in (await api.ask("User:eve", "GET", "/"))[1]["triggers"]] == ["t"]
    status, described = await api.ask("User:eve", "GET", "/t")
    assert status == 200
    assert "secret" not in json.dumps(described)
    assert described["trigger"]["function"] == f"https://{urlsplit(URL).hostname}/..."
    assert (await api.ask("User:ada", "GET", "/t"))[1]["trigger"]["function"] == URL
    for method, path, document in (
        ("POST", "/t/pause", None),
        ("POST", "/t/resume", None),
        ("POST", "/t/reset", {"position": "LATEST"}),
        ("DELETE", "/t", None),
    ):
        assert (await api.ask("User:eve", method, path, document))[0] == 403, (method, path)
    assert (await api.ask("User:mallory", "GET", "/"))[1] == {"triggers": []}
    assert await api.ask("User:mallory", "GET", "/t") == (400, {
        "error": "RESOURCE_NOT_FOUND", "message": "there is no trigger 't'"})  # fmt: skip


async def test_an_address_that_may_not_be_reached_is_refused_at_the_creation(api: Api) -> None:
    document = {"name": "t", "topic": "orders", "function": "https://169.254.169.254/latest/meta-data"}
    status, response = await api.ask("User:root", "POST", "/", document)
    assert (status, response["error"]) == (400, "POLICY_VIOLATION")
    assert "trigger_networks" in response["message"]


async def test_a_function_of_an_allowed_module_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "shop_of_the_test"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "orders.py").write_text(
        "def handler(event, context):\n    return {'seen': event['n'], 'id': context.aws_request_id}\n"
        "async def later(event, context):\n    return None\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    target = HandlerTarget(modules=("shop_of_the_test",))

    def call(function: str) -> Call:
        return Call(Trigger(name="t", topic="orders", function=function), "id", b'{"n": 7}', 10.0)

    assert json.loads(await target.call(call("shop_of_the_test.orders:handler"))) == {"seen": 7, "id": "id"}
    assert await target.call(call("shop_of_the_test.orders:later")) == b""
    for bad in (
        "shop_of_the_test.orders:none",
        "shop_of_the_test.none:handler",
        "shop_of_the_tests:handler",
        "os:exit",
    ):
        with pytest.raises(CallRefused):
            await target.call(call(bad))
    for name in [module for module in sys.modules if module.startswith("shop_of_the_test")]:
        del sys.modules[name]


def status_of(name: str, **partition: Any) -> TriggerStatus:
    zeros = dict.fromkeys(("offset", "end_offset", "lag", "invocations", "failures", "passed", "given_up"), 0)
    times = dict.fromkeys(("error_ms", "called_ms", "retry_ms"), 0)
    one = PartitionStatus(**{"partition": 0, "is_calling": False, "error": "", **zeros, **times, **partition})
    return TriggerStatus(Trigger(name=name, topic="orders", function=URL), topic_exists=True, partitions=[one])


def test_doctor_names_triggers_that_wait_after_a_failure() -> None:
    fine = status_of("fine", error="once", error_ms=5, called_ms=9, lag=3, retry_ms=20)
    [finding] = trigger_findings([fine])
    assert (finding.outcome, finding.text) == ("ok", "1 triggers, none of which waits after a failure")
    refused = status_of("bad", error="AccessDeniedException", error_ms=9, called_ms=5, lag=3)
    [finding] = trigger_findings([fine, refused])
    assert finding.outcome == "warn"
    assert "bad: 1 partitions with 3 records wait after: AccessDeniedException" in finding.text
    assert list(trigger_findings([])) == []
