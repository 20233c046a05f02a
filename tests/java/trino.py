"""Trino on this machine: its server with the Iceberg connector over Glue's catalog and S3 of an emulator."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bench.peers.maven import TRINO, NoJars, maven_archives
from tests.support.stores.aws import CREDENTIALS, REGION

JAVA = "ODRADEK_TRINO_JAVA"
"""The variable with the path of a `java` of version 24 or newer."""
_START_S = 180
_MEMORY = ("-Xmx1500m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_JVM = (
    "-Djdk.attach.allowAttachSelf=true",
    *("--add-modules=jdk.incubator.vector", "--enable-native-access=ALL-UNNAMED"),
    "--sun-misc-unsafe-memory-access=allow",
)


class TrinoFailed(Exception):
    """An error of Trino, with its message."""


class Trino:
    """A running server; its catalog is `odradek`."""

    def __init__(self, uri: str) -> None:
        self._uri = uri

    def query(self, sql: str) -> list[list[Any]]:
        """Return the rows of a statement; bytes are in base64. Raises TrinoFailed."""
        request = urllib.request.Request(
            f"{self._uri}/v1/statement",
            data=sql.encode(),
            headers={"X-Trino-User": "tests", "X-Trino-Time-Zone": "UTC"},
        )
        response = _json(request)
        rows: list[list[Any]] = []
        while True:
            if "error" in response:
                raise TrinoFailed(response["error"]["message"])
            rows += response.get("data", [])
            if "nextUri" not in response:
                return rows
            response = _json(response["nextUri"])


@contextmanager
def running_trino(folder: Path, endpoint: str) -> Iterator[Trino]:
    """Start a server, over the emulator at that endpoint; skip the test where it cannot be had."""
    java = os.environ.get(JAVA)
    if not java:
        pytest.skip(f"{JAVA} names no java of version 24 or newer; Trino and its connector are 540 MB to fetch")
    try:
        archives = maven_archives(TRINO)
    except NoJars as reason:
        pytest.skip(f"Trino is not here: {reason}")
    [server], [connector] = archives.glob("trino-server-core-*"), archives.glob("trino-iceberg-*")
    plugins = folder / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "iceberg").symlink_to(connector)
    port = _free_port()
    _configure(folder, plugins, port, endpoint)
    log = folder / "trino.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *(java, *_MEMORY, *_JVM, "-Dnode.environment=tests", "-Dnode.id=one", f"-Dnode.data-dir={folder}/data"),
                *(f"-Dconfig={folder}/config.properties", "-cp", f"{server}/lib/*", "io.trino.server.TrinoServer"),
            ],
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
        )
        try:
            _wait(f"http://127.0.0.1:{port}", process, log)
            yield Trino(f"http://127.0.0.1:{port}")
        finally:
            process.kill()
            process.wait()


def _configure(folder: Path, plugins: Path, port: int, endpoint: str) -> None:
    catalogs = folder / "catalogs"
    catalogs.mkdir()
    keys = CREDENTIALS["AWS_ACCESS_KEY_ID"], CREDENTIALS["AWS_SECRET_ACCESS_KEY"]
    _write(
        catalogs / "odradek.properties",
        {
            "connector.name": "iceberg",
            "iceberg.catalog.type": "glue",
            "hive.metastore.glue.region": REGION,
            "hive.metastore.glue.endpoint-url": endpoint,
            "hive.metastore.glue.aws-access-key": keys[0],
            "hive.metastore.glue.aws-secret-key": keys[1],
            "fs.native-s3.enabled": "true",
            "s3.endpoint": endpoint,
            "s3.region": REGION,
            "s3.path-style-access": "true",
            "s3.aws-access-key": keys[0],
            "s3.aws-secret-key": keys[1],
        },
    )
    _write(
        folder / "config.properties",
        {
            "coordinator": "true",
            "node-scheduler.include-coordinator": "true",
            "http-server.http.port": str(port),
            "discovery.uri": f"http://127.0.0.1:{port}",
            **{f"node.{name}": "127.0.0.1" for name in ("bind-ip", "internal-address")},
            "catalog.management": "static",
            "catalog.config-dir": str(catalogs),
            "plugin.dir": str(plugins),
            "query.max-memory-per-node": "300MB",
            "memory.heap-headroom-per-node": "300MB",
        },
    )


def _write(path: Path, properties: dict[str, str]) -> None:
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))


def _wait(uri: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + _START_S
    while time.monotonic() < until:
        assert process.poll() is None, log.read_text()[-3000:]
        try:
            if not _json(f"{uri}/v1/info")["starting"]:
                return
        except (urllib.error.URLError, ConnectionError):
            pass
        time.sleep(0.5)
    raise AssertionError(f"Trino has not started in {_START_S} s: {log.read_text()[-3000:]}")


def _json(request: str | urllib.request.Request) -> Any:
    with urllib.request.urlopen(request, timeout=120) as response:
        return json.load(response)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
