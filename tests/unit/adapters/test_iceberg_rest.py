"""A catalog over REST that refuses, fails or never answers: which error the maintainer gets, and that it gets one."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from uuid import UUID

import pytest
from odradek.adapters.iceberg.rest import LimitedRestCatalog
from odradek.adapters.iceberg.tables import IcebergTables
from odradek.errors import KafkaError, OutcomeUnknown, StoreUnavailable
from odradek.ports.table_catalog import TableName

NAME = TableName("odradek", "flights")
REFUSALS = {401: "NotAuthorizedException", 403: "ForbiddenException", 400: "BadRequestException"}


class Stub:
    """A REST catalog that answers with a status; None: never."""

    def __init__(self) -> None:
        self.config: int | None = 200
        self.other: int | None = 200
        self.over = threading.Event()

    def respond(self, handler: BaseHTTPRequestHandler) -> None:
        handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        is_config = handler.path.startswith("/v1/config")
        status = self.config if is_config else self.other
        if status is None:
            self.over.wait(30)
            return
        document = {"defaults": {}, "overrides": {}}
        if status != 200:
            exception_type = REFUSALS.get(status, "ServiceFailureException")
            document = {"error": {"message": "your token is of last year", "type": exception_type, "code": status}}
        body = json.dumps(document).encode()
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)


@contextmanager
def served(stub: Stub) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            stub.respond(self)

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        stub.over.set()
        server.shutdown()
        server.server_close()


@pytest.fixture
def stub() -> Stub:
    return Stub()


@pytest.fixture
def opened(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], IcebergTables]]:
    monkeypatch.setattr(LimitedRestCatalog, "time_limits_s", (0.3, 0.3))
    with served(stub) as uri:
        properties = {"type": "rest", "uri": uri, "token": "t"}
        yield lambda: IcebergTables.open("odradek", properties, "s3://bucket")


@pytest.mark.parametrize("status", [401, 403])
def test_who_is_not_allowed_is_told_why(stub: Stub, opened: Callable[[], IcebergTables], status: int) -> None:
    stub.config = status
    with pytest.raises(StoreUnavailable, match=r"opened: the catalog does not allow it: .*your token is of last year"):
        opened()
    stub.config, stub.other = 200, status
    tables = opened()
    with pytest.raises(StoreUnavailable, match=r"flights cannot be loaded: the catalog does not allow it: .*last year"):
        tables.load(NAME)
    with pytest.raises(StoreUnavailable, match=r"flights cannot be created: the catalog does not allow it"):
        tables.create(NAME, UUID(int=7), ())


def test_a_server_that_takes_a_request_and_never_answers_holds_nobody(
    stub: Stub, opened: Callable[[], IcebergTables]
) -> None:
    stub.config = None
    with pytest.raises(StoreUnavailable, match="the Iceberg catalog cannot be opened: ReadTimeout"):
        opened()
    stub.config, stub.other = 200, None
    tables = opened()
    with pytest.raises(StoreUnavailable, match=r"flights cannot be loaded: ReadTimeout"):
        tables.load(NAME)
    with pytest.raises(OutcomeUnknown, match=r"flights cannot be created: ReadTimeout"):
        tables.create(NAME, UUID(int=7), ())


@pytest.mark.parametrize("status", [500, 503])
def test_a_server_that_fails(stub: Stub, opened: Callable[[], IcebergTables], status: int) -> None:
    stub.other = status
    tables = opened()
    with pytest.raises(StoreUnavailable, match="last year"):
        tables.load(NAME)
    with pytest.raises(OutcomeUnknown):
        tables.create(NAME, UUID(int=7), ())


def test_a_request_that_the_catalog_cannot_take(stub: Stub, opened: Callable[[], IcebergTables]) -> None:
    stub.other = 400
    with pytest.raises(KafkaError, match=r"flights cannot be created: .*last year"):
        opened().create(NAME, UUID(int=7), ())


def test_nobody_there() -> None:
    properties = {"uri": "http://127.0.0.1:9"}  # a URI of HTTP is one of REST
    with pytest.raises(StoreUnavailable, match="the Iceberg catalog cannot be opened: ConnectionError"):
        IcebergTables.open("odradek", properties, "s3://bucket")
