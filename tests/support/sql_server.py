"""A server of stream SQL without Spark and without a service: an engine that records what it is asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from odradek.errors import ErrorCode, KafkaError
from odradek.sql.plan import QueryPlan
from odradek.sql.server.app import ServerInfo, make_app
from odradek.sql.server.command_log import Command
from odradek.sql.server.service import SqlService
from odradek.sql.server.transient import Transients
from odradek.sql.session import Row
from starlette.testclient import TestClient


class MemoryLog:
    """The log of a server, which outlives it."""

    def __init__(self) -> None:
        self.commands: dict[int, Command] = {}
        self.refuses = False
        self._end = 0

    @property
    def next_number(self) -> int:
        return self._end

    def load(self) -> list[Command]:
        return [self.commands[number] for number in sorted(self.commands)]

    def write(self, command: Command) -> None:
        if self.refuses:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "the log is away")
        self.commands[command.number] = command
        self._end += 1

    def erase(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.commands.pop(number, None)
            self._end += 1

    def close(self) -> None: ...


@dataclass
class FakeEngine:
    """Keeps plans; gives the rows that a test puts in."""

    started: dict[str, QueryPlan] = field(default_factory=dict)
    done: list[tuple[str, str]] = field(default_factory=list)
    documents: list[bytes] = field(default_factory=list)
    present: list[Row] = field(default_factory=list)
    arriving: list[list[Row]] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    refuses: str = ""  # id of a query that cannot be started
    pushing: int = 0
    pushed: list[QueryPlan] = field(default_factory=list)

    def rows(self, plan: QueryPlan) -> list[Row]:
        return list(self.present)

    def changes(
        self, plan: QueryPlan, show: Callable[[list[Row]], None], *, once: bool, until: threading.Event | None = None
    ) -> None:
        self.pushed.append(plan)
        self.pushing += 1
        for rows in self.arriving:
            show(rows)
        if plan.limit is None:
            assert until is not None
            until.wait(120)
        self.pushing -= 1

    def insert(self, plan: QueryPlan) -> None:
        assert plan.sink is not None
        self.done.append(("insert", plan.sink.topic.name))

    def insert_documents(self, plan: QueryPlan, documents: list[bytes]) -> None:
        self.documents += documents

    def process(self, plan: QueryPlan) -> Mapping[str, Any]:
        return {}

    def start(self, plan: QueryPlan) -> None:
        if self.refuses and plan.query_id.startswith(self.refuses):
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "Spark is away")
        self.started[plan.query_id] = plan
        self.failures.pop(plan.query_id, None)
        self.done.append(("start", plan.query_id))

    def stop(self, query_id: str) -> None:
        if self.started.pop(query_id, None) is not None:
            self.done.append(("stop", query_id))

    def forget(self, query_id: str) -> None:
        self.done.append(("forget", query_id))

    def failure(self, query_id: str) -> str | None:
        return self.failures.get(query_id)

    def wait(self) -> None: ...

    def configure(self, name: str, value: str | None) -> None: ...

    def has_schema(self, subject: str, schema_id: int | None) -> bool:
        return subject == "s-value"


@dataclass
class FakeTopics:
    there: dict[str, int] = field(default_factory=dict)
    served: dict[str, str] = field(default_factory=dict)  # topic by name of the table

    def partitions(self) -> Mapping[str, int]:
        return dict(self.there)

    def consumers(self) -> Mapping[str, list[int]]:
        return {"t": [2, 1]}

    def create(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        self.there[name] = max(partitions, 1)

    def delete(self, name: str) -> None:
        del self.there[name]

    def serve(self, name: str, topic: str, options: Mapping[str, Any]) -> None:
        self.served[name] = topic

    def unserve(self, name: str) -> None:
        self.served.pop(name, None)


@dataclass
class World:
    """A log and topics, and the server that runs over them now."""

    log: MemoryLog = field(default_factory=MemoryLog)
    topics: FakeTopics = field(default_factory=lambda: FakeTopics({"s": 3, "t": 1}))
    engine: FakeEngine = field(default_factory=FakeEngine)
    connectors: Any = None
    service: SqlService = field(init=False)
    transients: Transients = field(init=False)
    client: TestClient = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Start a server, as after a crash: nothing but log, topics and checkpoints are left of the one before."""
        self.engine = FakeEngine()
        self.service = SqlService(self.engine, self.topics, self.log, connectors=self.connectors)
        self.service.open()
        self.transients = Transients(self.engine, push_max=2, pull_max=1)
        info = ServerInfo("1.2.3", "cluster", "default_", "127.0.0.1:8088", 1)
        self.client = TestClient(make_app(self.service, self.transients, info))

    def ksql(self, text: str, status: int = 200, **more: Any) -> Any:
        response = self.client.post("/ksql", json={"ksql": text, **more})
        assert response.status_code == status, response.text
        assert response.headers["content-type"].startswith("application/vnd.ksql.v1+json")
        return response.json()


STREAM = "CREATE STREAM s (id VARCHAR KEY, a INT, d DECIMAL(4, 2)) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON');"
TABLE = "CREATE TABLE n AS SELECT id, COUNT(*) AS c FROM s GROUP BY id EMIT CHANGES;"
