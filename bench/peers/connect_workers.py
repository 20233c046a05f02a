"""Workers of Connect for benches: ours over the embedded service, and Apache Kafka Connect's over Apache Kafka.

Both are driven by the same JSON over the same REST API.

    python -m bench.peers.connect_workers      Apache Kafka Connect with Debezium's connectors, for tries by hand
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

from bench.kafka_port import service
from bench.peers.kafka_broker import NoBroker, free_ports, kafka_broker
from bench.peers.maven import APACHE_CONNECT, DEBEZIUM, NoJars, maven_jars

_START_S = 180
_NO_PROXY = {"NO_PROXY": "127.0.0.1"}


class Worker(NamedTuple):
    """A running worker: its REST API, its process, that of the service or broker, and the address of its Kafka port."""

    url: str
    pid: int
    server_pid: int
    servers: str


def call(url: str, method: str = "GET", body: Any = None) -> Any:
    """Return the JSON of an answer, None while the worker is not ready for the request."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.loads(response.read() or b"null")
    except urllib.error.HTTPError as error:
        if error.code == HTTPStatus.BAD_REQUEST:
            raise SystemExit(f"bench: {url}: {error.read().decode()}") from None
        return None
    except OSError:
        return None


def until(condition: Callable[[], Any], limit_s: float, event: str) -> Any:
    give_up = time.monotonic() + limit_s
    while not (outcome := condition()):
        if time.monotonic() > give_up:
            raise SystemExit(f"bench: {event} did not happen within {limit_s:.0f} s")
        time.sleep(0.05)
    return outcome


@contextmanager
def _started(command: list[str], folder: Path, url: str, server: tuple[int, str]) -> Iterator[Worker]:
    with (folder / "worker.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **_NO_PROXY})
        try:
            until(lambda: call(f"{url}/connectors") is not None, _START_S, "the start of a worker")
            yield Worker(url, process.pid, *server)
        finally:
            process.kill()
            process.wait()


@contextmanager
def ours(folder: Path, *, exactly_once: bool) -> Iterator[Worker]:
    with service() as (server_pid, servers, client):
        url = f"http://127.0.0.1:{free_ports(1)[0]}"
        config = {"listeners": url, "exactly.once.source.support": "enabled" if exactly_once else "disabled"}
        config |= {"offset.flush.interval.ms": "1000"}
        code = (
            "import json, sys; from odradek.connect import Cluster, Worker, WorkerSettings;"
            "from odradek.connect.rest.server import RestServer; config, client = map(json.loads, sys.argv[1:]);"
            "from odradek.connect.runtime.worker import collect_rarely; collect_rarely();"
            "settings = WorkerSettings.of(config, client); import threading\n"
            "with Cluster(settings) as cluster, RestServer(cluster, config['listeners']), Worker(settings):\n"
            "    threading.Event().wait()"
        )
        command = [sys.executable, "-c", code, json.dumps(config), json.dumps(client)]
        with _started(command, folder, url, (server_pid, servers)) as worker:
            yield worker


@contextmanager
def theirs(folder: Path, *, exactly_once: bool, peer: str = APACHE_CONNECT) -> Iterator[Worker]:
    """A distributed worker of Apache Kafka Connect over a broker of Apache Kafka. Raises NoJars, NoBroker.

    Args:
        peer: whose pom names the jars of the worker and its connectors.
    """
    with (
        kafka_broker() as broker,
        apache_worker(folder, (broker.pid, broker.servers), exactly_once=exactly_once, peer=peer) as worker,
    ):
        yield worker


@contextmanager
def apache_worker(folder: Path, server: tuple[int, str], *, exactly_once: bool, peer: str) -> Iterator[Worker]:
    """A distributed worker of Apache Kafka Connect over any Kafka: its process id and address. Raises NoJars."""
    jars = os.pathsep.join(map(str, maven_jars(peer)))
    url = f"http://127.0.0.1:{free_ports(1)[0]}"
    values = {
        "bootstrap.servers": server[1],
        "group.id": "connect",
        "listeners": url,
        "exactly.once.source.support": "enabled" if exactly_once else "disabled",
        "offset.flush.interval.ms": "1000",
        "plugin.discovery": "service_load",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    }
    for store in ("config", "offset", "status"):
        values |= {f"{store}.storage.topic": f"connect-{store}", f"{store}.storage.replication.factor": "1"}
    properties = folder / "worker.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    main = "org.apache.kafka.connect.cli.ConnectDistributed"
    with _started(["java", "-Xmx1g", "-cp", jars, main, str(properties)], folder, url, server) as worker:
        yield worker


def main(argv: list[str] | None = None) -> int:
    """Run a worker until Enter."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args(argv)
    try:
        with tempfile.TemporaryDirectory() as folder, theirs(Path(folder), exactly_once=False, peer=DEBEZIUM) as worker:
            input(f"Apache Kafka Connect on {worker.url}, Apache Kafka on {worker.servers}; Enter ends them ")
    except (NoBroker, NoJars) as reason:
        print(reason)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
