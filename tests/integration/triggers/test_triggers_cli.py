"""`odradek triggers` and the SDK against an embedded service, over HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import odradek
import pytest
import standardwebhooks
from odradek.cli.app import app
from odradek.errors import ErrorCode, KafkaError
from odradek.local import ThreadedService
from typer.testing import CliRunner


class Inbox:
    """An HTTP server that keeps what it is sent, and answers by script (200 when that is over)."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.statuses: list[int] = []
        self.came = threading.Semaphore(0)
        inbox = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                inbox.requests.append(({name.lower(): value for name, value in self.headers.items()}, body))
                self.send_response(inbox.statuses.pop(0) if inbox.statuses else 200)
                self.send_header("content-length", "0")
                self.end_headers()
                inbox.came.release()

            def log_message(self, *_: Any) -> None:
                return

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    inbox = Inbox()
    yield inbox
    inbox.stop()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ThreadedService]:
    with odradek.local(tmp_path / "data", synchronous="NORMAL") as running:
        with odradek.Admin(**running.client_config) as admin:
            admin.create_topics([odradek.NewTopic("orders", 2)])
        yield running


def command(service: ThreadedService, *words: str) -> Any:
    """Run a command, and return what it printed as JSON, or as text."""
    where = ["--bootstrap-servers", service.bootstrap_servers, "--data-dir", str(service.data_dir)]
    result = CliRunner().invoke(app, ["triggers", *words, *where])
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.output) if "json" in words else result.output


def test_a_url_is_called_signed_and_called_again_after_an_error(service: ThreadedService, inbox: Inbox) -> None:
    made = command(service, "create", "hook", "--topic", "orders", "--function", inbox.url, "--output", "json")
    secret = made["secret"]
    inbox.statuses = [500]
    with odradek.Producer(**service.client_config) as producer:
        producer.send("orders", b'{"id": 7}', partition=1).result()
    assert inbox.came.acquire(timeout=30)
    assert inbox.came.acquire(timeout=30)
    first, second = inbox.requests
    assert first[1] == second[1]
    assert first[0]["webhook-id"] == second[0]["webhook-id"]
    for headers, body in inbox.requests:
        event = standardwebhooks.Webhook(secret).verify(body, headers)  # raises where the signature is wrong
        assert [record["offset"] for record in event["records"]["orders-1"]] == [0]
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(secret).verify(body + b" ", headers)


def test_the_commands_from_creation_to_deletion(service: ThreadedService, inbox: Inbox) -> None:
    command(service, "create", "hook", "-t", "orders", "-f", inbox.url, "--filter", '{"key": ["a"]}', "--bisect")
    [row] = command(service, "list", "--output", "json")
    assert (row["name"], row["topic"], row["state"], row["group"]) == ("hook", "orders", "ENABLED", "trigger.hook")
    described = command(service, "describe", "hook", "--output", "json")
    assert described["trigger"]["filters"] == ['{"key": ["a"]}']
    assert "secret" not in described["trigger"]
    assert [partition["lag"] for partition in described["partitions"]] == [0, 0]
    assert "last error: none" in command(service, "describe", "hook")
    assert command(service, "pause", "hook") == "paused hook\n"
    assert command(service, "reset", "hook", "--to", "earliest", "--output", "json") == [
        {"partition": 0, "offset": 0},
        {"partition": 1, "offset": 0},
    ]
    assert command(service, "resume", "hook") == "resumed hook\n"
    assert command(service, "delete", "hook", "--yes") == "deleted hook\n"
    assert command(service, "list", "--output", "json") == []


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ({"topic": "none"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "create it first"),
        ({"function": "orders"}, ErrorCode.INVALID_REQUEST, "use the ARN of a Lambda function, a URL"),
        ({"batch_size": 0}, ErrorCode.INVALID_REQUEST, "batch_size must be 1 to 10000, not 0"),
        ({"filters": ["{"]}, ErrorCode.INVALID_REQUEST, "a filter must be JSON"),
        ({"filters": ['{"value": {"a": "b"}}']}, ErrorCode.INVALID_REQUEST, "its rules in a list"),
        ({"on_failure": "topic:orders"}, ErrorCode.INVALID_REQUEST, "own topic"),
        ({"on_failure": "elsewhere"}, ErrorCode.INVALID_REQUEST, "topic:NAME, sqs:QUEUE_URL"),
        ({"maximum_record_age_s": 5}, ErrorCode.INVALID_REQUEST, "60 to 604800, or -1"),
        ({"batchsize": 5}, ErrorCode.INVALID_REQUEST, "unknown option 'batchsize'"),
    ],
)
def test_a_bad_option_is_refused_with_what_to_do(
    service: ThreadedService, options: dict[str, Any], code: ErrorCode, said: str
) -> None:
    trigger_options = {"name": "t", "topic": "orders", "function": "https://example.org/hook", **options}
    with odradek.Admin(**service.client_config) as admin:
        with pytest.raises(KafkaError, match=said) as raised:
            admin.create_trigger(**trigger_options)
        assert raised.value.code is code
        assert admin.list_triggers() == []


def test_a_handler_of_a_module_that_is_not_allowed_is_not_imported(service: ThreadedService) -> None:
    with odradek.Admin(**service.client_config) as admin:
        admin.create_trigger("t", "orders", "antigravity:open", retry_attempts=0)
        with odradek.Producer(**service.client_config) as producer:
            producer.send("orders", b"1", partition=0).result()
        for _ in range(1_000):
            status = admin.describe_trigger("t")
            if status.last_error:
                break
            threading.Event().wait(0.01)
    assert "start the service with its module" in status.last_error
    assert (status.lag, status.invocations, status.partitions[0].given_up) == (1, 0, 0), "it waits for the module"
