"""The services that the clients speak to (no login, SASL, SASL over TLS), and what they must hold afterwards."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import odradek
from odradek.local import Listener, ThreadedService
from odradek.model.record import TimestampType

from tests.peers.clients.matrix import CODECS, LOGINS, Client

COUNT = 20
GROUP_RECORDS = 40
BASE_MS = 1_700_000_000_000
USER, PASSWORD = "ada", "lovelace"


@dataclass(frozen=True, slots=True)
class Services:
    """The running services."""

    plain: ThreadedService
    sasl: ThreadedService
    sasl_tls: ThreadedService
    ca: Path

    def prepare(self, prefix: str) -> None:
        """Create the topics of one client."""
        late = odradek.NewTopic(f"{prefix}-log_append_time", 1, configs={"message.timestamp.type": "LogAppendTime"})
        names = [*(f"{prefix}-{codec}" for codec in CODECS), f"{prefix}-transaction"]
        with odradek.Admin(**self.plain.client_config) as admin:
            topics = [odradek.NewTopic(name, 1) for name in names]
            old = {"retention.ms": "-1"}  # the records are of another year, and a long run outlives their grace
            admin.create_topics([*topics, late, odradek.NewTopic(f"{prefix}-group", 2, configs=old)])
        with odradek.Producer(**self.plain.client_config) as producer:
            for i in range(GROUP_RECORDS):
                producer.send(f"{prefix}-group", b"%d" % i, partition=i % 2, timestamp_ms=BASE_MS + i * 1000)
        for service in (self.sasl, self.sasl_tls):
            with odradek.Admin(**service.client_config) as admin:
                admin.create_topics([odradek.NewTopic(f"{prefix}-login", 1)])

    def config(self, prefix: str, tasks: list[str]) -> dict[str, Any]:
        """Return what a program is told."""
        return {
            "servers": {
                "plain": self.plain.kafka_bootstrap_servers,
                "sasl": self.sasl.kafka_bootstrap_servers,
                "sasl_tls": self.sasl_tls.kafka_bootstrap_servers,
            },
            "ca": str(self.ca),
            "user": USER,
            "password": PASSWORD,
            "prefix": prefix,
            "count": COUNT,
            "base_ms": BASE_MS,
            "tasks": tasks,
        }

    def faults(self, prefix: str, outcomes: Mapping[str, str]) -> dict[str, str]:
        """Compare what the services hold with what the client says to have done: a fault by task."""
        checks: dict[str, Callable[[], str]] = {
            **{codec: lambda codec=codec: self._values(f"{prefix}-{codec}", _NUMBERS) for codec in CODECS},  # type: ignore[misc]
            "log_append_time": lambda: self._late(f"{prefix}-log_append_time"),
            "group": lambda: self._committed(f"{prefix}-g", f"{prefix}-group"),
            "transaction": lambda: self._values(f"{prefix}-transaction", [b"0", b"2"]),
            "topics": lambda: self._topics(prefix),
        }
        faults = {task: fault for task, check in checks.items() if outcomes.get(task) == "ok" and (fault := check())}
        for service, tasks in ((self.sasl, LOGINS[:2]), (self.sasl_tls, LOGINS[2:])):
            succeeded = [task for task in tasks if outcomes.get(task) == "ok"]
            written = len(_records(service, f"{prefix}-login"))
            if written != len(succeeded):
                faults |= {task: f"{written} records of {len(succeeded)} logins" for task in succeeded}
        return faults

    def _values(self, topic: str, wanted: list[bytes]) -> str:
        values = [record.value for record in _records(self.plain, topic)]
        return "" if values == wanted else f"{topic} holds {values!r}"

    def _late(self, topic: str) -> str:
        records = _records(self.plain, topic)
        kinds = {record.timestamp_type for record in records}
        return "" if kinds == {TimestampType.LOG_APPEND_TIME} and len(records) == COUNT else f"{len(records)}: {kinds}"

    def _committed(self, group: str, topic: str) -> str:
        with odradek.Admin(**self.plain.client_config) as admin:
            committed = {p.partition: o.offset for p, o in admin.list_consumer_group_offsets(group).items()}
        return "" if committed == {0: GROUP_RECORDS // 2, 1: GROUP_RECORDS // 2} else f"committed {committed}"

    def _topics(self, prefix: str) -> str:
        with odradek.Admin(**self.plain.client_config) as admin:
            counts = {name: topic.partition_count for name, topic in admin.describe_topics().items()}
        if f"{prefix}-gone" in counts:
            return "the deleted topic exists"
        return "" if counts.get(f"{prefix}-made") in (3, 4) else f"{prefix}-made: {counts.get(f'{prefix}-made')}"


_NUMBERS = [b"%d" % i for i in range(COUNT)]


def _records(service: ThreadedService, topic: str) -> list[odradek.ConsumerRecord]:
    tp = odradek.TopicPartition(topic, 0)
    records: list[odradek.ConsumerRecord] = []
    with odradek.Consumer(**service.client_config, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp])
        end = consumer.end_offsets([tp])[tp]
        while consumer.position(tp) < end:
            for some in consumer.poll(200).values():
                records += some
    return records


@contextmanager
def running(folder: Path, clients: tuple[Client, ...]) -> Iterator[Services]:
    """Run the services; files of TLS go to `folder`."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    words += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(words, check=True, capture_output=True)
    with ExitStack() as stack:
        plain = stack.enter_context(odradek.local(kafka_port=0))
        sasl = stack.enter_context(odradek.local(kafka=Listener(port=0, sasl=True, plain_without_tls=True)))
        tls = Listener(port=0, sasl=True, tls_cert=cert, tls_key=key)
        sasl_tls = stack.enter_context(odradek.local(kafka=tls))
        for service in (sasl, sasl_tls):
            with odradek.Admin(**service.client_config) as admin:
                admin.create_user(USER, PASSWORD)
        services = Services(plain, sasl, sasl_tls, cert)
        for client in clients:
            services.prepare(prefix_of(client))
        yield services


def prefix_of(client: Client) -> str:
    """Return the prefix of a client's topics and groups."""
    return f"{client.package.rpartition('/')[2].replace(':', '-')}-{client.version}".replace("_", "-")
