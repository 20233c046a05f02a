"""Access to the REST API: users, TLS, clients' certificates; and secrets that it does not show."""

from __future__ import annotations

import base64
import json
import logging
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from odradek.connect import Cluster, WorkerSettings
from odradek.connect.errors import BadRequest, ConfigError
from odradek.connect.providers import Providers
from odradek.connect.rest.server import RestServer

from tests.support.connect.plugins import COUNTER, FAIL
from tests.support.connect.running import RunningCluster

EXTENSION = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"


def status(url: str, login: str | None = None, tls: ssl.SSLContext | None = None) -> int:
    request = urllib.request.Request(url)
    if login is not None:
        request.add_header("Authorization", f"Basic {base64.b64encode(login.encode()).decode()}")
    try:
        with urllib.request.urlopen(request, timeout=30, context=tls) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A PEM file of a key and a certificate that it has signed itself."""
    key, made = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(key), "-out", str(made), "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True)
    both = tmp_path / "both.pem"
    both.write_text(key.read_text() + made.read_text())
    return both


@pytest.fixture
def cluster(running: RunningCluster) -> Iterator[Any]:
    """Return a cluster with more configurations."""
    opened = []

    def make(**configs: str) -> Cluster:
        settings = {**running.configs, **{name.replace("_", "."): value for name, value in configs.items()}}
        opened.append(Cluster(WorkerSettings.of(settings, running.client)))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def test_only_users_come_in(cluster: Any, tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("# who may\nanna=s3cret\nbert=other=word\n")
    settings = {"rest_basic_auth_users_file": str(users), "rest_extension_classes": EXTENSION}
    with RestServer(cluster(**settings), "http://0.0.0.0:0") as server:
        url = server.url.replace("0.0.0.0", "127.0.0.1") + "/connectors"
        for login in (None, "anna:wrong", "anna", "nobody:s3cret", ":", "bert:other"):
            assert status(url, login) == 401
        assert status(url, "anna:s3cret") == status(url, "bert:other=word") == 200
        assert status(url.replace("/connectors", "/health")) == 200
        users.write_text("carl=new\n")
        assert (status(url, "anna:s3cret"), status(url, "carl:new")) == (401, 200)


def test_tls_and_certificates_of_clients(cluster: Any, certificate: Path) -> None:
    trust = ssl.create_default_context(cafile=str(certificate))
    with RestServer(cluster(ssl_keystore_location=str(certificate)), "https://127.0.0.1:0") as server:
        assert server.url.startswith("https://")
        assert status(f"{server.url}/connectors", tls=trust) == 200
    mutual = {"ssl_client_auth": "required", "ssl_truststore_location": str(certificate)}
    with RestServer(cluster(ssl_keystore_location=str(certificate), **mutual), "https://127.0.0.1:0") as server:
        with pytest.raises(OSError):
            status(f"{server.url}/connectors", tls=trust)
        trust.load_cert_chain(str(certificate))
        assert status(f"{server.url}/connectors", tls=trust) == 200


def test_what_would_be_open_or_cannot_work_is_refused(cluster: Any, tmp_path: Path) -> None:
    for listener, configs, message in (
        ("http://0.0.0.0:0", {}, "can be reached by others"),
        ("https://127.0.0.1:0", {}, "https:// needs ssl.keystore.location"),
        ("https://127.0.0.1:0", {"ssl_keystore_location": "/nowhere"}, "cannot be used"),
        ("http://127.0.0.1:0", {"rest_extension_classes": EXTENSION}, "needs rest.basic.auth.users.file"),
        ("http://127.0.0.1:0", {"rest_extension_classes": "other.Extension"}, "unknown extension"),
        ("http://127.0.0.1:0", {"rest_basic_auth_users_file": str(tmp_path / "none")}, "cannot be read"),
        ("ftp://127.0.0.1:0", {}, "must be such as"),
    ):
        with pytest.raises(ConfigError, match=message):
            RestServer(cluster(**configs), listener)


def test_secrets_are_neither_stored_nor_shown(service: Any, tmp_path: Path) -> None:
    (tmp_path / "topics").write_text("name=hidden-topic\n")
    file = {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    }
    with RunningCluster(service, **file) as running:
        variable = f"${{file:{tmp_path / 'topics'}:name}}"
        running.create("s", {"connector.class": COUNTER, "topic": variable, "count": "10"})
        assert len(running.read("hidden-topic", 10)) == 10
        shown = json.dumps([running.cluster.info("s"), running.cluster.tasks("s")])
        assert "hidden-topic" not in shown
        assert json.dumps(variable) in shown
        validated = running.cluster.validate(COUNTER, {"connector.class": COUNTER, "name": "s", "topic": variable})
        assert "hidden-topic" not in json.dumps(validated)
        with pytest.raises(BadRequest, match="has no entry other"):
            running.cluster.patch_config("s", {"topic": f"${{file:{tmp_path / 'topics'}:other}}"})
        (tmp_path / "topics").write_text("name=second-topic\n")
        running.cluster.restart("s", include_tasks=True)
        running.cluster.patch_config("s", {"count": "20"})
        assert len(running.read("second-topic", 10)) == 10


def test_no_message_has_what_a_variable_stands_for(
    service: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Validation, refusals, states, the log and dead-letter headers have the text as it was written."""
    secret = "pass'word 7"
    (tmp_path / "secrets").write_text(f"word={secret}\ntopic=hidden-topic\nshort=x7\n")
    file = {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    }
    word, short = (f"${{file:{tmp_path / 'secrets'}:{key}}}" for key in ("word", "short"))
    with RunningCluster(service, **file) as running, RestServer(running.cluster, "http://127.0.0.1:0") as server:

        def call(method: str, path: str, body: Any) -> str:
            kind = {"Content-Type": "application/json"}
            request = urllib.request.Request(server.url + path, json.dumps(body).encode(), kind, method=method)
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    return str(answer.read().decode())
            except urllib.error.HTTPError as error:
                return error.read().decode()

        good = {"connector.class": COUNTER, "topic": "t", "count": "10"}
        changes = [{name: word} for name in ("tasks.max", "errors.tolerance", "value.converter", "transforms")]
        changes += [{"tasks.max": short}, {"producer.override.acks": word}, {"topic": word, "count": word}]
        for wrong in changes:
            config = {**good, "name": "w", **wrong}
            for text in (
                call("PUT", f"/connector-plugins/{COUNTER}/config/validate", config),
                call("PUT", "/connectors/w/config", config),
                call("POST", "/connectors", {"name": "w", "config": config}),
            ):
                assert "pass" not in text.replace("basic", ""), text
                assert "x7" not in text
                if "tasks.max" in wrong:
                    assert json.dumps(wrong["tasks.max"])[1:-1] in text
        running.create("s", {**good, "fail": "0", "topic": word})
        running.wait_states("s", "RUNNING", "FAILED")
        shown = json.dumps(running.cluster.status("s"))
        assert "a bug of the connector" in shown
        assert secret not in shown
        FAIL["s2/start"] = 1
        running.create("s2", {**good, "name": "s2", "task": word})
        [worker] = running.workers
        other = Providers({}, {})  # of another worker in this process
        other._written["its own secret"] = "${file:other}"
        other.hide_in_log(caplog.handler)
        worker.settings.providers.hide_in_log(caplog.handler)
        logging.getLogger("odradek.connect.other").error("cannot log in as %r", secret)
        try:
            raise ValueError(f"no {secret}")
        except ValueError:
            logging.getLogger("odradek.connect.other").exception("it failed")
        assert secret not in caplog.text
        assert caplog.text.count(word) >= 2
        assert secret not in worker.settings.providers.as_written(repr(secret) + json.dumps(secret) + secret)
