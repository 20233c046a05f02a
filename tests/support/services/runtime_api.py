"""Lambda's Runtime API on this machine: what a function's process asks for its events.

    GET  /2018-06-01/runtime/invocation/next            blocks until `invoke`; the event, its id and deadline in headers
    POST /2018-06-01/runtime/invocation/<id>/response   the handler's return value
    POST /2018-06-01/runtime/invocation/<id>/error      what the handler raised
    POST /2018-06-01/runtime/init/error                 why the module could not be imported

Source: AWS Lambda developer guide, "Using the Lambda runtime API".
"""

from __future__ import annotations

import json
import queue
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_PREFIX = "/2018-06-01/runtime/"


class FunctionFailed(Exception):
    """The handler raised, or could not be imported; the document is what the runtime client reported."""

    def __init__(self, document: Any) -> None:
        super().__init__(document)
        self.document = document


class RuntimeApi:
    """Serves one function's process. `address` goes into AWS_LAMBDA_RUNTIME_API."""

    def __init__(self, *, timeout_s: float = 30.0) -> None:
        self._timeout_s = timeout_s
        self._events: queue.SimpleQueue[tuple[str, bytes] | None] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[tuple[str, bytes]] = queue.SimpleQueue()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="runtime-api", daemon=True)
        self._thread.start()
        self.address = f"127.0.0.1:{self._server.server_port}"

    def invoke(self, event: Any) -> Any:
        """Give the event to the function and return its answer. Raises FunctionFailed, queue.Empty (no answer)."""
        self._events.put((str(uuid.uuid4()), json.dumps(event).encode()))
        outcome, body = self._results.get(timeout=self._timeout_s + 30)
        if outcome == "response":
            return json.loads(body)
        raise FunctionFailed(json.loads(body))

    def close(self) -> None:
        self._events.put(None)
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def next_event(self) -> tuple[str, bytes] | None:
        return self._events.get()

    def deadline_ms(self) -> int:
        return int((time.time() + self._timeout_s) * 1000)

    def answer(self, outcome: str, body: bytes) -> None:
        self._results.put((outcome, body))


def _handler(api: RuntimeApi) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            event = api.next_event() if self.path == f"{_PREFIX}invocation/next" else None
            if event is None:  # closed: the process that asked is gone
                self.close_connection = True
                return
            request_id, body = event
            self._send(
                200,
                body,
                {
                    "Content-Type": "application/json",
                    "Lambda-Runtime-Aws-Request-Id": request_id,
                    "Lambda-Runtime-Deadline-Ms": str(api.deadline_ms()),
                    "Lambda-Runtime-Invoked-Function-Arn": "arn:aws:lambda:us-east-1:000000000000:function:test",
                },
            )

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            api.answer(self.path.rpartition("/")[2], body)
            self._send(202, b'{"status":"OK"}')

        def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            return None

    return Handler
