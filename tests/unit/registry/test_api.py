"""The REST API: routes, shapes, what is refused; who may do what."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from odradek.adapters.memory import MemoryStore
from odradek.engine.access.acls import Acls
from odradek.functions.invoked import Instruments
from odradek.functions.logs import JsonLines
from odradek.functions.metering import InvocationMeter
from odradek.functions.registry import RegistryHandler
from odradek.model.acl import CLUSTER_NAME, AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from odradek.registry.api import RegistryApi, Request, Text
from odradek.registry.subjects import Subjects
from odradek.settings import Settings
from odradek.testing.manual_clock import ManualClock
from odradek.testing.seeded_rng import SeededRng

STRING = {"schema": '"string"'}


class World:
    def __init__(self) -> None:
        catalog, self.clock = MemoryStore().catalog, ManualClock(auto_advance=True)
        self.acls = Acls(catalog, self.clock, SeededRng(0), Settings(acl_cache_ms=0))
        self.api = RegistryApi(Subjects(catalog, self.clock, SeededRng(0)), self.acls, "cluster-1")

    async def ask(self, method: str, target: str, body: Any = None, *, principal: str = "User:ann") -> tuple[int, Any]:
        path, _, query = target.partition("?")
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.api.answer(Request(method, path, query, data, principal, "192.0.2.1"))

    async def allow(
        self, operation: AclOperation, resource_type: ResourceType, name: str, principal: str = "User:ann"
    ) -> None:
        await self.acls.create(
            AclBinding(resource_type, name, PatternType.LITERAL, principal, "*", operation, AclPermission.ALLOW)
        )


@pytest.fixture
def world() -> World:
    return World()


async def test_shapes(world: World) -> None:
    status, made = await world.ask("POST", "/subjects/a%2Fb-value/versions", STRING)
    assert (status, made["id"], made["version"]) == (200, 1, 1)
    status, shown = await world.ask("GET", "/subjects/a%2Fb-value/versions/latest")
    guid = made["guid"]
    assert shown == {"subject": "a/b-value", "version": 1, "id": 1, "guid": guid, "schema": '"string"'}
    assert await world.ask("POST", "/subjects/a%2Fb-value", STRING) == (200, shown)
    assert await world.ask("GET", "/subjects/a%2Fb-value/versions/-1/schema") == (200, '"string"')
    assert isinstance((await world.ask("GET", "/schemas/ids/1/schema"))[1], Text)
    assert await world.ask("GET", "/schemas/ids/1") == (200, {"guid": guid, "schema": '"string"'})
    assert await world.ask("GET", f"/schemas/guids/{guid}") == (200, {"guid": guid, "schema": '"string"'})
    assert await world.ask("GET", "/schemas/ids/1/subjects") == (200, ["a/b-value"])
    assert await world.ask("GET", "/schemas/ids/1/versions") == (200, [{"subject": "a/b-value", "version": 1}])
    assert await world.ask("GET", "/schemas/types") == (200, ["JSON", "PROTOBUF", "AVRO"])
    assert await world.ask("GET", "/subjects/") == (200, ["a/b-value"])
    assert await world.ask("GET", "/subjects?subjectPrefix=b") == (200, [])
    assert await world.ask("GET", "/config") == (200, {"compatibilityLevel": "BACKWARD"})
    assert await world.ask("GET", "/config/x?defaultToGlobal=true") == (200, {"compatibilityLevel": "BACKWARD"})
    assert await world.ask("PUT", "/config/x", {"compatibility": "none"}) == (200, {"compatibility": "NONE"})
    assert await world.ask("DELETE", "/config/x") == (200, {"compatibilityLevel": "NONE"})
    assert await world.ask("PUT", "/mode/x", {"mode": "readonly"}) == (200, {"mode": "READONLY"})
    assert await world.ask("DELETE", "/mode/x") == (200, {"mode": "READONLY"})
    int_ = {"schema": '"int"'}
    check = "/compatibility/subjects/a%2Fb-value/versions/latest"
    assert await world.ask("POST", check, int_) == (200, {"is_compatible": False})
    assert len((await world.ask("POST", f"{check}?verbose=true", int_))[1]["messages"]) == 1
    assert await world.ask("GET", "/contexts") == (200, ["."])
    assert (await world.ask("GET", "/v1/metadata/id"))[1]["scope"]["clusters"]["kafka-cluster"] == "cluster-1"
    assert await world.ask("GET", "/subjects/a%2Fb-value/versions?offset=1&limit=5") == (200, [])


@pytest.mark.parametrize(
    ("method", "target", "body", "code"),
    [
        ("GET", "/nowhere", None, 404),
        ("PATCH", "/subjects", None, 405),
        ("POST", "/subjects/s/versions", b"{", 400),
        ("POST", "/subjects/s/versions", [], 400),
        ("POST", "/subjects/s/versions", b"\xff", 400),
        ("POST", "/subjects/s/versions", b"[" * 100_000, 400),
        ("POST", "/subjects/s/versions", {}, 42201),
        ("POST", "/subjects/s/versions", {"schema": "nonsense"}, 42201),
        ("POST", "/subjects/s/versions", {"schema": "{}", "schemaType": "XML"}, 42201),
        ("POST", "/subjects/s/versions", {**STRING, "references": [{}]}, 42201),
        ("POST", "/subjects/s/versions", {**STRING, "references": 3}, 42201),
        ("POST", "/subjects/s/versions", {**STRING, "ruleSet": {"domainRules": [1]}}, 42201),
        ("POST", "/subjects/s/versions", {**STRING, "id": "7"}, 422),
        ("POST", "/subjects/s/versions", {**STRING, "version": 1 << 40}, 42202),
        ("POST", "/subjects/s", STRING, 40401),
        ("GET", "/subjects/s/versions", None, 40401),
        ("GET", "/subjects/s/versions/0", None, 42202),
        ("GET", "/subjects/s/versions/9999999999", None, 42202),
        ("GET", "/subjects/s/versions/one", None, 42202),
        ("GET", "/subjects/%00/versions", None, 42208),
        ("GET", "/schemas/ids/1", None, 40403),
        ("GET", "/schemas/ids/x", None, 404),
        ("GET", "/schemas/guids/x", None, 40403),
        ("GET", "/config/s", None, 40408),
        ("GET", "/mode/s", None, 40409),
        ("PUT", "/config", {"compatibility": "SIDEWAYS"}, 42203),
        ("PUT", "/config", {}, 42203),
        ("PUT", "/mode", {"mode": "SLEEP"}, 42204),
        ("DELETE", "/subjects/s", None, 40401),
        ("POST", "/compatibility/subjects/s/versions/latest", STRING, 40401),
    ],
)
async def test_refusals(world: World, method: str, target: str, body: Any, code: int) -> None:
    status, document = await world.ask(method, target, body)
    assert (status, document["error_code"]) == (code if code < 1000 else code // 100, code)
    assert document["message"]


async def test_a_subject_is_its_topic_to_the_rules(world: World) -> None:
    await world.allow(AclOperation.ALL, ResourceType.TOPIC, "*", principal="User:root")
    await world.allow(AclOperation.WRITE, ResourceType.TOPIC, "orders")
    await world.allow(AclOperation.READ, ResourceType.TOPIC, "orders", principal="User:bob")
    assert (await world.ask("POST", "/subjects/orders-value/versions", STRING))[0] == 200
    status, refused = await world.ask(
        "POST", "/subjects/orders-value/versions", {"schema": '"int"'}, principal="User:bob"
    )
    assert (status, refused["error_code"]) == (403, 40301)
    assert "'orders'" in refused["message"]
    assert (await world.ask("GET", "/subjects/orders-value/versions/1", principal="User:bob"))[0] == 200
    assert (await world.ask("GET", "/schemas/ids/1", principal="User:bob"))[0] == 200
    for target in ("/schemas/ids/1", "/subjects/orders-value/versions", "/config", "/mode/orders-value"):
        assert (await world.ask("GET", target, principal="User:eve"))[0] in (403, 404), target
    assert await world.ask("GET", "/subjects", principal="User:eve") == (200, [])
    assert (await world.ask("DELETE", "/subjects/orders-value"))[0] == 403  # to write is not to delete
    assert (await world.ask("PUT", "/config", {"compatibility": "NONE"}))[0] == 403
    await world.allow(AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME)
    assert (await world.ask("PUT", "/config", {"compatibility": "NONE"}))[0] == 200


async def test_a_change_leaves_one_json_object_in_the_log(world: World) -> None:
    lines: list[str] = []
    audit = logging.getLogger("odradek.audit")
    handler, level = JsonLines(lines.append), audit.level
    audit.addHandler(handler)
    audit.setLevel(logging.INFO)
    try:
        await world.ask("POST", "/subjects/t-value/versions", STRING)
        await world.ask("GET", "/subjects")
    finally:
        audit.removeHandler(handler)
        audit.setLevel(level)
    [line] = map(json.loads, lines)
    change = "REGISTRY POST /subjects/t-value/versions"
    assert line == {
        "level": "INFO",
        "message": f"audit {change} by User:ann",
        "logger": "odradek.audit",
        "audit": change,
        "principal": "User:ann",
        "client_host": "192.0.2.1",
        "outcome": "NONE",
    }


async def test_a_schema_of_two_topics_is_readable_by_the_readers_of_either(world: World) -> None:
    for name in ("one-value", "two-value"):
        await world.ask("POST", f"/subjects/{name}/versions", STRING)
    await world.allow(AclOperation.DESCRIBE, ResourceType.TOPIC, "two")
    assert (await world.ask("GET", "/schemas/ids/1"))[0] == 200
    assert await world.ask("GET", "/schemas/ids/1/subjects") == (200, ["two-value"])


class Context:
    aws_request_id, function_name, memory_limit_in_mb = "r-1", "odradek-registry", "512"

    def get_remaining_time_in_millis(self) -> int:
        return 10_000


def test_the_function_takes_text_and_base64_and_answers_whatever_comes(world: World) -> None:
    import base64

    lines: list[str] = []
    instruments = Instruments(clock=world.clock, meter=InvocationMeter(), write_line=lines.append)
    handler = RegistryHandler(world.api, instruments)
    http = {"method": "POST", "path": "/subjects/s/versions", "sourceIp": "192.0.2.1"}
    context = {"http": http, "authorizer": {"iam": {"userArn": "arn:aws:iam::1:user/ann"}}}
    event = {"rawPath": "/subjects/s/versions", "rawQueryString": "", "requestContext": context}
    text = handler({**event, "body": json.dumps(STRING), "isBase64Encoded": False}, Context())
    encoded = base64.b64encode(json.dumps(STRING).encode()).decode()
    assert handler({**event, "body": encoded, "isBase64Encoded": True}, Context()) == text
    assert text["statusCode"] == 200
    assert json.loads(text["body"])["id"] == 1
    for broken in ({}, {"requestContext": 3}, {**event, "body": "%", "isBase64Encoded": True}):
        assert handler(broken, Context())["statusCode"] == 400
    assert json.loads(lines[0])["principal"] == "User:arn:aws:iam::1:user/ann"
    world.api._subjects = None  # type: ignore[assignment]
    failed = handler({**event, "body": json.dumps(STRING)}, Context())
    assert failed["statusCode"] == 500
    assert "Traceback" not in failed["body"]
    assert "r-1" in failed["body"]
