"""Probes: questions that run unchanged against Apache Kafka and against the Kafka port.

A probe is a function of a Peer that returns whatever the answer consists of: dicts of responses, parts of them, lists,
texts. It is named by its module and its function: `topics: create the same name twice`. Probes are independent: each
takes names from `peer.name`, and leaves cluster-wide state (broker configurations, default quotas) as it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.peers.codec import Malformed
from tests.peers.connection import Closed, Connection, Silent
from tests.peers.schemas import Schemas

Answer = Any
Question = Callable[["Peer"], Answer]
ADMIN, USER, PASSWORD = "admin", "alice", "probe-password"
_READY_S = 30.0
RETRIABLE = (5, 14, 15, 16, 51)  # LEADER_NOT_AVAILABLE, COORDINATOR_..., NOT_COORDINATOR, CONCURRENT_TRANSACTIONS


@dataclass(frozen=True)
class Probe:
    """A named question."""

    name: str
    question: Question
    is_alone: bool = False  # it changes what other probes see: it runs after them


PROBES: dict[str, Probe] = {}


def add(name: str, question: Question, *, is_alone: bool = False) -> None:
    """Register a probe. Raises ValueError if the name is taken."""
    if name in PROBES:
        raise ValueError(f"two probes are named {name!r}")
    PROBES[name] = Probe(name, question, is_alone)


def probe(question: Question) -> Question:
    """Register a function as a probe that is named by its module and itself."""
    add(_name(question), question)
    return question


def probe_alone(question: Question) -> Question:
    """As `probe`, for one that changes what other probes see: it runs after them, and puts things back."""
    add(_name(question), question, is_alone=True)
    return question


def _name(question: Question) -> str:
    family = question.__module__.rpartition(".")[2].replace("_", " ")
    return f"{family}: {question.__name__.replace('_', ' ')}"


class Peer:
    """A broker under probes: connections, names of their own, short ways for what many probes begin with.

    Args:
        servers, sasl_servers: addresses; no login at the first, which is a super user.
        versions: lowest and highest version by API, of those that both brokers advertise (of the broker itself where
            only one does).
        suffix: makes names unique for a probe; answers show it as *.
    """

    def __init__(
        self,
        servers: str,
        sasl_servers: str,
        schemas: Schemas,
        versions: Mapping[str, tuple[int, int]],
        suffix: str,
        apis_called: set[tuple[str, int]],
    ) -> None:
        self.servers, self.sasl_servers, self.schemas, self.versions = servers, sasl_servers, schemas, versions
        self.suffix = suffix
        self._asked = apis_called
        self._opened: list[Connection] = []
        self._connection: Connection | None = None
        self._settled = 0

    # --- connections -------------------------------------------------------------------------------------------------

    def connect(self, client_id: str | None = "probe", *, sasl: bool = False, answer_s: float = 30.0) -> Connection:
        """Open a connection of the probe's; it is closed at the probe's end. `sasl`: at the port for logins."""
        connection = _Noted(self.sasl_servers if sasl else self.servers, self.schemas, client_id, answer_s)
        connection.asked = self._asked
        self._opened.append(connection)
        return connection

    def login(self, user: str = USER, password: str = PASSWORD, client_id: str = "probe") -> Connection:
        """Open a connection and log in with PLAIN. Raises AssertionError if the login fails."""
        connection = self.connect(client_id, sasl=True)
        assert connection.call("SaslHandshake", 1, Mechanism="PLAIN")["ErrorCode"] == 0
        response = connection.call("SaslAuthenticate", 2, AuthBytes=f"\0{user}\0{password}".encode())
        assert response["ErrorCode"] == 0, response
        return connection

    def call(self, api: str, version: int | None = None, **values: Any) -> dict[str, Any]:
        """Ask on the probe's first connection, in the newest common version by default."""
        if self._connection is None:
            self._connection = self.connect()
        try:
            return self._connection.call(api, self.newest(api) if version is None else version, **values)
        except (Closed, Silent, Malformed):
            self._connection = None
            raise

    def attempt(self, api: str, version: int | None = None, **values: Any) -> Answer:
        """As `call`; a closed connection, silence and undecodable bytes are answers too."""
        return attempt(lambda: self.call(api, version, **values))

    def newest(self, api: str) -> int:
        """The newest version that both brokers advertise."""
        return self.versions[api][1]

    def oldest(self, api: str) -> int:
        """The oldest version that both brokers advertise."""
        return self.versions[api][0]

    def close(self) -> None:
        """Close what the probe opened."""
        for connection in self._opened:
            connection.close()

    # --- names and topics --------------------------------------------------------------------------------------------

    def name(self, text: str) -> str:
        """A name that no other probe uses."""
        return f"{text}-{self.suffix}"

    def topic(self, text: str = "t", partitions: int = 1, **configs: Any) -> str:
        """Create a topic, wait until its partitions have leaders, and return its name.

        Args:
            configs: with underscores: `cleanup_policy="compact"`.
        """
        name = self.name(text)
        chosen = [{"Name": key.replace("_", "."), "Value": str(value)} for key, value in configs.items()]
        topic = {"Name": name, "NumPartitions": partitions, "ReplicationFactor": 1, "Configs": chosen}
        result = self.call("CreateTopics", Topics=[topic], timeoutMs=30_000)["Topics"][0]
        assert result["ErrorCode"] == 0, result
        self.until_led(name, partitions)
        return name

    def until_led(self, topic: str, partitions: int) -> None:
        """Wait until a topic's partitions have leaders that serve them."""

        def is_led() -> bool:
            requested = [{"PartitionIndex": index, "Timestamp": -1} for index in range(partitions)]
            response = self.call("ListOffsets", 4, ReplicaId=-1, Topics=[{"Name": topic, "Partitions": requested}])
            return not any(row["ErrorCode"] for row in response["Topics"][0]["Partitions"])

        until(is_led)

    def settle(self) -> None:
        """Wait until the broker goes by everything that was changed before: changes are applied one after the other."""
        self._settled += 1
        self.topic(f"settled-{self._settled}")
        time.sleep(0.05)  # of one set of changes the topics come first

    def topic_id(self, topic: str) -> Any:
        """The id of a topic."""
        return self.call("Metadata", 12, Topics=[{"Name": topic}])["Topics"][0]["TopicId"]


class _Noted(Connection):
    """A connection that notes the APIs and versions that were asked."""

    asked: set[tuple[str, int]]

    def send_body(self, api: str, version: int, body: bytes) -> int:
        self.asked.add((api, version))
        return super().send_body(api, version, body)


def attempt(question: Callable[[], Answer]) -> Answer:
    """The answer; a closed connection, silence and undecodable bytes are answers too."""
    try:
        return question()
    except Closed:
        return "the connection is closed"
    except Silent:
        return "no answer"
    except Malformed as fault:
        return f"undecodable: {fault}"


def until(condition: Callable[[], Any], timeout_s: float = _READY_S) -> Any:
    """Poll until a condition holds; return what it returned. Raises AssertionError."""
    deadline_s = time.monotonic() + timeout_s
    while not (outcome := condition()):
        assert time.monotonic() < deadline_s, f"did not happen within {timeout_s} s"
        time.sleep(0.05)
    return outcome


def settled(question: Callable[[], dict[str, Any]], timeout_s: float = _READY_S) -> dict[str, Any]:
    """Ask until the answer's ErrorCode is none of those that pass by themselves; return the last answer."""
    deadline_s = time.monotonic() + timeout_s
    while (response := question())["ErrorCode"] in RETRIABLE and time.monotonic() < deadline_s:
        time.sleep(0.05)
    return response


def pick(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The fields of these names, those that are there."""
    return {name: values[name] for name in names if name in values}


def by_name(rows: Iterable[Mapping[str, Any]], key: str = "Name") -> dict[str, Mapping[str, Any]]:
    """Rows by their name: brokers list topics and configurations in orders of their own."""
    return {str(row[key]): {name: value for name, value in row.items() if name != key} for row in rows}
