"""The ACLs that docs/connect lists for a worker: with them alone its connectors run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import odradek
import pytest
from odradek.local import service as local_service
from odradek.local.function_url import USER_ARN
from odradek.model.acl import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from odradek.settings import Settings

from tests.support.connect.plugins import COUNTER, KEEPER, values
from tests.support.connect.running import RunningCluster
from tests.support.kafka.port import until

READ, WRITE, CREATE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE
TOPIC, GROUP, TRANSACTION = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A service that denies its owner's clients everything that no ACL allows."""
    monkeypatch.setattr(local_service, "OWNERS", ())
    with odradek.local(settings=Settings(allow_everyone_if_no_acl_found="false")) as found:  # type: ignore[operator]
        yield found


def allow(service: Any, kind: ResourceType, name: str, *operations: AclOperation, prefix: bool = False) -> None:
    pattern = PatternType.PREFIXED if prefix else PatternType.LITERAL
    for each in operations:
        acl = AclBinding(kind, name, pattern, f"User:{USER_ARN}", "*", each, AclPermission.ALLOW)
        service_loop(service, service.service.engine.acls.create(acl))


def service_loop(service: Any, work: Any) -> Any:
    return asyncio.run_coroutine_threadsafe(work, service.loop).result()


@pytest.mark.parametrize("creates", [True, False], ids=["worker creates topics", "topics exist"])
def test_a_worker_with_the_listed_rights(service: Any, creates: bool) -> None:
    running = RunningCluster(service, **{"group.id": "team"})
    sink = f"righted-{creates}"  # records are kept by the connector's name
    may_create = (CREATE,) if creates else ()
    for name in ("configs", "offsets", "status"):
        allow(service, TOPIC, f"team-{name}", READ, WRITE, *may_create)
    allow(service, TOPIC, "team-slots", AclOperation.DESCRIBE, *may_create)
    allow(service, GROUP, "team", READ, AclOperation.ALTER_CONFIGS)
    allow(service, TRANSACTION, "team-source-", WRITE, prefix=True)
    allow(service, TOPIC, "numbers", READ, WRITE, *may_create)
    allow(service, GROUP, f"connect-{sink}", READ)
    allow(service, TOPIC, "refused", WRITE, *may_create)
    if not creates:
        engine = service.service.engine
        for name in ("configs", "offsets", "status"):
            service_loop(service, engine.topics.create(f"team-{name}", 1, {"cleanup.policy": "compact"}))
        for name in ("team-slots", "numbers", "refused"):
            service_loop(service, engine.topics.create(name, 2))
    with running:
        running.create("source", {"connector.class": COUNTER, "topic": "numbers", "count": "20"})
        running.create(
            sink,
            {
                "connector.class": KEEPER, "topics": "numbers", "refuse": "7", "errors.tolerance": "all",
                "errors.deadletterqueue.topic.name": "refused",
            },
        )  # fmt: skip
        until(lambda: len(values(sink)) >= 18, 30, "all records but 7 and 17")
        assert sorted(value["n"] for value in values(sink)) == [n for n in range(20) if n not in (7, 17)]
