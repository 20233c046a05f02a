"""The matrix of rights: principals x resources x operations, over each API beside Kafka's protocol.

A cell says what a principal gets of a resource. The one rule that all have in common: what a principal may not describe
is answered as what does not exist. `make test` asks every cell; the last test counts them.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import odradek
import pytest
from odradek.connect import Cluster, WorkerSettings
from odradek.connect.rest.access import Users
from odradek.connect.rest.server import RestServer
from odradek.model.acl import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from odradek.registry.api import RegistryApi
from odradek.registry.api import Request as RegistryRequest
from odradek.registry.subjects import Subjects
from odradek.served.api import Request as TablesRequest
from odradek.settings import Settings
from odradek.sql.server.app import ServerInfo
from odradek.sql.server.serving import Listening, serve_sql
from odradek.system import SystemClock, SystemRng
from odradek.triggers.api import Request as TriggersRequest
from odradek.triggers.api import TriggersApi

from tests.support.all_ports import HANGS_S, AllPorts, all_ports, ask, in_thread
from tests.support.connect.running import FAST
from tests.support.counted import at_least

OWNER, READER, NAMED, STRANGER = "User:owner", "User:reader", "User:named", "User:stranger"
PRINCIPALS = (OWNER, READER, NAMED, STRANGER)
RIGHTS = {
    OWNER: (AclOperation.ALL,),
    READER: (AclOperation.READ,),  # which implies DESCRIBE
    NAMED: (AclOperation.DESCRIBE,),
    STRANGER: (),
}
Answer = tuple[int, Any]
MISSING, HIDDEN = "missing", "hidden"
# What may be done with "shown", on which the principals have RIGHTS. On "hidden" only the super user has any.
REGISTRY = {
    "GET /subjects/{}/versions": "describe",
    "GET /subjects/{}/versions/1": "describe",
    "GET /subjects/{}/versions/1/schema": "describe",
    "GET /subjects/{}/versions/1/referencedby": "describe",
    "POST /subjects/{}": "describe",
    "POST /compatibility/subjects/{}/versions": "describe",
    "GET /config/{}?defaultToGlobal=true": "describe_configs",
    "GET /mode/{}?defaultToGlobal=true": "describe_configs",
    "PUT /config/{}": "alter_configs",
    "PUT /mode/{}": "alter_configs",
    "POST /subjects/{}/versions": "write",
    "DELETE /subjects/{}/versions/9": "delete",
}
TABLES = {
    "GET /{}": "describe",
    "GET /{}/k": "read",
    "GET /{}?limit=5": "read",
    "GET /{}?changes=json&wait_ms=0": "read",
    "POST /{}": "read",
    "POST /{}/stop": "alter",
    "POST /{}/resume": "alter",
}
TRIGGERS = {
    "GET /{}": "describe",
    "POST /{}/pause": "admin",
    "POST /{}/reset": "read",
    "POST /{}/resume": "admin",
}
ALLOWED = {
    OWNER: {"describe", "describe_configs", "alter_configs", "read", "write", "alter", "delete", "admin"},
    READER: {"describe", "read"},
    NAMED: {"describe"},
    STRANGER: set(),
}
BODIES = {
    "PUT /config/{}": {"compatibility": "NONE"},
    "PUT /mode/{}": {"mode": "READWRITE"},
    "POST /{}": {"keys": ["k"]},
    "POST /{}/reset": {"position": "LATEST"},
}


@pytest.fixture(scope="module")
def ports() -> Iterator[AllPorts]:
    with all_ports(Settings()) as running:
        with odradek.Admin(**running.service.client_config) as admin:
            for name in (HIDDEN, "shown"):
                admin.create_topics([odradek.NewTopic(name, 1, configs={"cleanup.policy": "compact"})])
                admin.serve_table(name, topic=name)
                admin.create_trigger(name, topic=name, function=f"https://hooks.example.org/{name}")
            rules = [
                AclBinding(resource_type, name, PatternType.LITERAL, principal, "*", operation, AclPermission.ALLOW)
                for principal, operations in RIGHTS.items()
                for operation in operations
                for resource_type, name in ((ResourceType.TOPIC, "shown"), (ResourceType.GROUP, "trigger.shown"))
            ]
            rules.append(AclBinding(
                ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL, OWNER, "*", AclOperation.ALTER,
                AclPermission.ALLOW))  # fmt: skip
            admin.create_acls(rules)
        yield running


class Apis:
    """Asks as any principal, in the service's process."""

    def __init__(self, ports: AllPorts) -> None:
        service = ports.service.service
        engine = service.engine
        self._loop = ports.service.loop
        subjects = Subjects(engine.catalog, SystemClock(), SystemRng())
        self._registry = RegistryApi(subjects, engine.acls, "c")
        self._triggers = TriggersApi(service.triggers, engine.acls)
        self._tables = service._triggers.tables.api

    def _run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(HANGS_S)

    def registry(self, principal: str, method: str, path: str, document: Any = None) -> Answer:
        path, _, query = path.partition("?")
        body = b"" if document is None else json.dumps(document).encode()
        status, document_read = self._run(
            self._registry.answer(RegistryRequest(method, path, query, body, principal, ""))
        )
        return status, document_read

    def triggers(self, principal: str, method: str, path: str, document: Any = None) -> Answer:
        body = b"" if document is None else json.dumps(document).encode()
        status, document_read = self._run(self._triggers.answer(TriggersRequest(method, path, body, principal, "")))
        return status, document_read

    def tables(self, principal: str, method: str, path: str, document: Any = None) -> Answer:
        path, _, query = path.partition("?")
        body = b"" if document is None else json.dumps(document).encode()
        response = self._run(self._tables.answer(TablesRequest(method, path, query, body, principal, "")))
        return response.status, json.loads(response.body)


@pytest.fixture(scope="module")
def apis(ports: AllPorts) -> Apis:
    made = Apis(ports)
    for name in (HIDDEN, "shown"):
        schema = {
            "schema": json.dumps({"type": "record", "name": name, "fields": [{"name": f"of_{name}", "type": "int"}]})
        }
        assert made.registry("User:local", "POST", f"/subjects/{name}-value/versions", schema)[0] == 200
    return made


def asked(ask_as: Callable[..., Answer], principal: str, route: str, name: str) -> Answer:
    method, _, path = route.partition(" ")
    document = BODIES.get(route)
    if document is None and method == "POST" and "subjects" in route:
        document = {"schema": '"string"'}
    return ask_as(principal, method, path.replace("{}", name), document)


@pytest.mark.parametrize("principal", PRINCIPALS)
@pytest.mark.parametrize("api", ["registry", "tables", "triggers"])
def test_what_may_not_be_described_is_not_there(apis: Apis, api: str, principal: str) -> None:
    routes = {"registry": REGISTRY, "tables": TABLES, "triggers": TRIGGERS}[api]
    for route, operation in at_least(3, routes.items()):
        names = {name: f"{name}-value" if api == "registry" else name for name in ("shown", HIDDEN, MISSING)}
        answers = {name: asked(getattr(apis, api), principal, route, names[name]) for name in names}
        shown, hidden, missing = (answers[name] for name in ("shown", HIDDEN, MISSING))
        assert json.dumps(hidden).replace(HIDDEN, MISSING) == json.dumps(missing), (route, principal)
        assert hidden[0] in (400, 403, 404), (route, hidden)
        if operation in ALLOWED[principal]:
            assert shown[0] not in (403, 401), (route, principal, shown)
            assert shown[0] < 500 or "knows no rows" in str(shown), (route, shown)
        elif "describe" in ALLOWED[principal]:
            assert shown[0] == 403, (route, principal, shown)
        else:
            assert json.dumps(shown).replace("shown", MISSING) == json.dumps(missing), (route, principal)


@pytest.mark.parametrize("principal", PRINCIPALS)
def test_lists_have_what_may_be_described(apis: Apis, principal: str) -> None:
    wanted = ["shown"] if "describe" in ALLOWED[principal] else []
    assert [table["name"] for table in apis.tables(principal, "GET", "/")[1]["tables"]] == wanted
    triggers = apis.triggers(principal, "GET", "/")[1]["triggers"]
    assert [trigger["name"] for trigger in triggers] == wanted
    url = "https://hooks.example.org/" + ("shown" if principal == OWNER else "...")
    assert [trigger["function"] for trigger in triggers] == [url] * len(wanted)
    assert [subject.removesuffix("-value") for subject in apis.registry(principal, "GET", "/subjects")[1]] == wanted
    schemas = apis.registry(principal, "GET", "/schemas")[1]
    assert sorted({schema["subject"].removesuffix("-value") for schema in schemas}) == wanted


@pytest.mark.parametrize("principal", PRINCIPALS)
def test_a_hidden_schema_is_told_neither_by_a_reference_nor_by_its_guid(apis: Apis, principal: str) -> None:
    def referring(subject: str, version: int) -> dict[str, Any]:
        fields = [{"name": "inner", "type": subject.removesuffix("-value")}]
        return {
            "schema": json.dumps({"type": "record", "name": "outer", "fields": fields}),
            "references": [{"name": subject.removesuffix("-value"), "subject": subject, "version": version}],
        }

    for path in BY_REFERENCE:
        answers = [
            apis.registry(principal, "POST", path, referring(f"{name}-value", version))
            for name, version in ((HIDDEN, 1), (HIDDEN, 2), (MISSING, 1))
        ]
        assert answers[0] == answers[1], path
        assert json.dumps(answers[0]).replace(HIDDEN, MISSING) == json.dumps(answers[2]), path
        assert "of_hidden" not in str(answers)
    hidden = apis.registry("User:local", "GET", "/subjects/hidden-value/versions/1")[1]
    other = str(uuid4())
    for path in BY_ID:
        own, none = (hidden["guid"], other) if "guids" in path else (str(hidden["id"]), "999999")
        schema_found = apis.registry(principal, "GET", path.format(own))
        missing = apis.registry(principal, "GET", path.format(none))
        assert json.dumps(schema_found).replace(own, none) == json.dumps(missing), path


BY_REFERENCE = ("/subjects/shown-value", "/subjects/shown-value/versions",
                "/compatibility/subjects/shown-value/versions?verbose=true")  # fmt: skip
BY_ID = ("/schemas/guids/{}", "/schemas/ids/{}", "/schemas/ids/{}/schema", "/schemas/ids/{}/subjects")
PAGES = ("/", "/topics", "/topics/shown", "/groups", "/schemas", "/triggers", "/tables", "/security", "/audit")
FORMS = ("/topics/create", "/topics/delete", "/groups/delete", "/triggers/delete", "/acls/create")
LOGINS = {"none": None, "wrong": b"ada:x", "right": b"ada:secret"}
CONNECT = ["GET /", "GET /health", "GET /connectors", "POST /connectors", "GET /connectors/c", "DELETE /connectors/c",
           "PUT /connectors/c/config", "PUT /connectors/c/pause", "PATCH /connectors/c/offsets",
           "GET /connector-plugins", "PUT /connector-plugins/DatagenConnector/config/validate",
           "GET /admin/loggers", "PUT /admin/loggers/odradek.x"]  # fmt: skip
SQL = ["GET /info", "GET /healthcheck", "GET /chc/live", "GET /clusterStatus", "GET /status", "GET /ws/query",
       "POST /ksql", "POST /query", "POST /query-stream", "POST /inserts-stream", "POST /close-query"]  # fmt: skip
OPEN = {"/health", "/healthcheck", "/chc/live"}


def test_connect_and_sql_let_in_their_users_alone(ports: AllPorts, tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text("ada=secret\n")
    configs = {**FAST, "group.id": "matrix", "rest.basic.auth.users.file": str(file)}
    settings = WorkerSettings.of(configs, dict(ports.service.client_config))
    listening = Listening(users=Users(str(file)))
    with (
        Cluster(settings) as cluster,
        RestServer(cluster, "http://127.0.0.1:0") as rest_server,
        in_thread(lambda: serve_sql(ports.world.service, ServerInfo("1", "c", "d", "", 1), listening)) as sql,
    ):
        for url, routes in ((rest_server.url, CONNECT), (sql, SQL)):
            for route in routes:
                method, _, path = route.partition(" ")
                body = b"{}" if method != "GET" and method != "DELETE" else None
                for login, pair in LOGINS.items():
                    for page in (False, True):
                        headers = {"Content-Type": "application/json"}
                        if pair is not None:
                            headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
                        if page:
                            headers["Origin"] = "https://page.example"
                        status, text, _ = ask(url, method, path, headers, body)
                        if page:
                            assert status == 403, (route, login)
                        elif login == "right" or path in OPEN:
                            assert status not in (401, 403), (route, login, text)
                        else:
                            assert status == 401, (route, login)


def test_the_console_shows_nothing_without_a_session_and_changes_nothing_without_its_token(ports: AllPorts) -> None:
    url, cookie = ports.urls["console"], ports.console_cookie()
    origin = {"Origin": url}
    for path in PAGES:
        assert ask(url, "GET", path)[0] == 401
        assert ask(url, "GET", path, {"Cookie": cookie})[0] == 200, path
        assert ask(url, "GET", path, {"Cookie": cookie, "Host": "page.example"})[0] == 421
    for path in (
        "/topics/create",
        "/topics/delete",
        "/groups/delete",
        "/triggers/delete",
        "/acls/create",
        "/users/save",
    ):
        form_type = {"Content-Type": "application/x-www-form-urlencoded"}
        body = b"name=shown"
        statuses = {
            "page": ask(url, "POST", path, {**form_type, "Cookie": cookie, "Origin": "https://page.example"}, body)[0],
            "nobody": ask(url, "POST", path, {**form_type, **origin}, body)[0],
            "no token": ask(url, "POST", path, {**form_type, **origin, "Cookie": cookie}, body)[0],
        }
        assert statuses["page"] == 403
        assert statuses["nobody"] == 401
        assert statuses["no token"] in (400, 403, 404, 405), (path, statuses)
    with odradek.Admin(**ports.service.client_config) as admin:
        assert "shown" in admin.list_topics()


def test_the_matrix_has_so_many_cells() -> None:
    by_name = 3 * len(PRINCIPALS) * (len(REGISTRY) + len(TABLES) + len(TRIGGERS))  # shown, hidden, missing
    by_list = len(PRINCIPALS) * (4 + len(BY_REFERENCE) + len(BY_ID))
    by_login = len(LOGINS) * 2 * (len(CONNECT) + len(SQL))  # as a page of a browser, and not
    by_session = 3 * (len(PAGES) + len(FORMS))
    assert by_name + by_list + by_login + by_session == 506
