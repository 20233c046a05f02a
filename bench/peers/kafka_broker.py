"""A real Apache Kafka beside us: one node in KRaft mode on loopback, from Maven Central's jars.

It needs `mvn` and Java 17; where one of them or the repository is missing, `kafka_broker` says so and the benches go on
without the peer. The broker has its defaults but for what a single node needs
(replication 1): it acknowledges from the page cache, as Apache Kafka does; ours acknowledges after fsync.

    python -m bench.peers.kafka_broker      one until Enter is pressed, for tries by hand
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.peers.maven import APACHE_KAFKA, NoJars, maven_jars

_CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
_HEAP = "-Xmx1g"
_START_S = 180


class NoBroker(Exception):
    """There is no Apache Kafka here; says why."""


@dataclass(frozen=True)
class Broker:
    """A running one: its address, its process id, and the address at which clients log in, if it was asked for."""

    servers: str
    pid: int
    sasl_servers: str = ""


@contextmanager
def kafka_broker(*more: str, version: str = "", sasl: bool = False) -> Iterator[Broker]:
    """A broker with an empty log; it and its log are gone in the end. Raises NoBroker.

    Args:
        more: further lines of its properties.
        version: another than the pom's.
        sasl: open a second listener, SASL_PLAINTEXT; `more` says how clients log in there.
    """
    classpath = _classpath(version)
    with tempfile.TemporaryDirectory() as folder:
        port, controller_port, sasl_port = free_ports(3)
        listeners = _listeners(port, controller_port, sasl_port if sasl else 0)
        properties = Path(folder) / "server.properties"
        properties.write_text("\n".join((_properties(controller_port, Path(folder) / "log"), listeners, *more)))
        _format(classpath, properties)
        with (Path(folder) / "broker.log").open("w+") as log:
            command = ["java", _HEAP, "-cp", classpath, "kafka.Kafka", str(properties)]
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
            try:
                _wait_until_ready(process, f"127.0.0.1:{port}", log.name)
                yield Broker(f"127.0.0.1:{port}", process.pid, f"127.0.0.1:{sasl_port}" if sasl else "")
            finally:
                process.kill()  # its log goes with it: there is nothing to flush
                process.wait()


def _classpath(version: str) -> str:
    try:
        return os.pathsep.join(map(str, maven_jars(APACHE_KAFKA, **({"kafka": version} if version else {}))))
    except NoJars as reason:
        raise NoBroker(f"no Apache Kafka to compare with: {reason}") from None


def _listeners(port: int, controller_port: int, sasl_port: int) -> str:
    clients = f"PLAINTEXT://127.0.0.1:{port}"
    if sasl_port:
        clients += f",SASL_PLAINTEXT://127.0.0.1:{sasl_port}"
    controller = f"CONTROLLER://127.0.0.1:{controller_port}"
    protocols = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
    lines = f"listeners={clients},{controller}", f"advertised.listeners={clients}"
    return "\n".join((*lines, f"listener.security.protocol.map={protocols}"))


def _properties(controller_port: int, log_dir: Path) -> str:
    return "\n".join(
        (
            "process.roles=broker,controller",
            "node.id=1",
            f"controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}",
            "controller.listener.names=CONTROLLER",
            f"log.dirs={log_dir}",
            "offsets.topic.replication.factor=1",
            "transaction.state.log.replication.factor=1",
            "transaction.state.log.min.isr=1",
            "share.coordinator.state.topic.replication.factor=1",
            "share.coordinator.state.topic.min.isr=1",
            "group.initial.rebalance.delay.ms=0",
        )
    )


def _format(classpath: str, properties: Path) -> None:
    command = ["java", "-cp", classpath, "kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "--standalone"]
    run = subprocess.run([*command, "-c", str(properties)], capture_output=True, text=True, timeout=300, check=False)
    if run.returncode:
        raise NoBroker(f"Apache Kafka did not format its log: {run.stderr[-300:]}")


def _wait_until_ready(process: subprocess.Popen[bytes], servers: str, log: str) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    give_up = time.monotonic() + _START_S
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    while time.monotonic() < give_up and process.poll() is None:
        try:
            if admin.list_topics(timeout=2).brokers:
                return
        except KafkaException:
            time.sleep(0.2)
    raise NoBroker(f"Apache Kafka did not start: {Path(log).read_text()[-300:]}")


def free_ports(count: int) -> list[int]:
    """Return so many ports on loopback that nobody listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [probe.getsockname()[1] for probe in sockets]
    finally:
        for probe in sockets:
            probe.close()


def main(argv: list[str] | None = None) -> int:
    """Run a broker until Enter."""
    argparse.ArgumentParser(description=__doc__).parse_args(argv)
    try:
        with kafka_broker() as broker:
            input(f"Apache Kafka on {broker.servers}; Enter ends it ")
    except NoBroker as reason:
        print(reason)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
