"""Write docs/http: an OpenAPI document for each HTTP API, and the page that lists their paths. `make reference`.

Paths and methods are those of the routes in the code: the registry's, Connect's and the SQL server's tables of routes,
and the contracts at the head of the modules of served tables and triggers. Bodies are those of Confluent's registry,
Kafka Connect and ksqlDB, whose references describe them, so the documents name no schema but that of errors.
tests/unit/docs/test_openapi.py compares.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from odradek import __version__
from odradek.connect.rest.app import routes_of
from odradek.http.ports import CONNECT, FUNCTION_URLS, REGISTRY, SQL, Port
from odradek.registry.api import RegistryApi
from odradek.served import api as served_api
from odradek.sql.server.app import make_app
from odradek.triggers import api as triggers_api
from starlette.routing import Route

from tools.reference import table

FOLDER = Path(__file__).parent.parent / "docs" / "http"
PAGE = FOLDER / "index.md"
Operation = tuple[str, str, str]  # method, path, summary

_NAME = re.compile(r"\{(\w+)(?::\w+)?\}")
_OPTIONAL = re.compile(r"\(\?:(/\(\?P<\w+>\[\^/\]\+\))\)\?")
_CONTRACT = re.compile(r"(?:^|\s{2,})(GET|POST|PUT|DELETE)\s+(/\S*?)(?:, /(\w+))?\s{2,}(.+?)(?=\s{3,}(?:POST|GET)|$)")


@dataclass(frozen=True)
class Api:
    """An HTTP API: its file in docs/http, and where it is served."""

    name: str
    title: str
    about: str
    port: Port
    error: tuple[str, str]  # the fields of an error: its code and its message

    def operations(self) -> list[Operation]:
        """Return its operations in the order of the code."""
        return list(_READERS[self.name]())


APIS = (
    Api("registry", "Schema registry", "Confluent's REST API: [Clients](../CLIENTS.md#schema-registry). Also a "
        "function of its own on AWS, and at `/registry` of the embedded service, with signed requests.", REGISTRY,
        ("error_code", "message")),
    Api("connect", "Connect", "Kafka Connect's REST API: [Connect](../connect/index.md).", CONNECT,
        ("error_code", "message")),
    Api("sql", "Stream SQL", "ksqlDB's REST API: [Stream SQL](../SQL.md). `/ws/query` is a WebSocket.", SQL,
        ("error_code", "message")),
    Api("tables", "Served tables", "[Served tables](../served.md): a function on AWS, and `/tables` of the embedded "
        "service.", FUNCTION_URLS, ("error", "message")),
    Api("triggers", "Triggers", "[Triggers](../triggers.md): a function on AWS, and `/triggers` of the embedded "
        "service.", FUNCTION_URLS, ("error", "message")),
)  # fmt: skip


class _Nothing:
    """Stands for a service whose routes are asked for, and which is never called."""

    def __getattr__(self, name: str) -> Any:
        return _Nothing()


def _registry() -> Iterator[Operation]:
    nothing: Any = _Nothing()
    for method, pattern in RegistryApi(nothing, nothing, "").routes:
        paths = [_OPTIONAL.sub("", pattern), _OPTIONAL.sub(r"\1", pattern)]
        for path in dict.fromkeys(paths):
            yield method, re.sub(r"\(\?P<(\w+)>\[\^/\]\+\)", r"{\1}", path), ""


def _connect() -> Iterator[Operation]:
    nothing: Any = _Nothing()
    for route in routes_of(nothing):
        yield route.method, route.path, ""


def _sql() -> Iterator[Operation]:
    nothing: Any = _Nothing()
    app: Any = make_app(nothing, nothing, nothing)
    for route in app.routes:
        if isinstance(route, Route):
            for method in sorted((route.methods or set()) - {"HEAD"}):
                yield method, _NAME.sub(r"{\1}", route.path), ""


def _contract(text: str | None) -> Iterator[Operation]:
    """Yield the operations of the head of a module: lines of method, path and summary, also two to a line."""
    for line in (text or "").splitlines():
        for method, path, other, summary in _CONTRACT.findall(line):
            if path.startswith("/"):
                yield method, path, summary.strip()
                if other:
                    yield method, f"{path.rpartition('/')[0]}/{other}", summary.strip()


_READERS: dict[str, Callable[[], Iterator[Operation]]] = {
    "registry": _registry,
    "connect": _connect,
    "sql": _sql,
    "tables": lambda: _contract(served_api.__doc__),
    "triggers": lambda: _contract(triggers_api.__doc__),
}


def document(api: Api) -> dict[str, Any]:
    """Return the OpenAPI document of an API."""
    paths: dict[str, dict[str, Any]] = {}
    for method, path, summary in api.operations():
        operation: dict[str, Any] = {"operationId": _operation_id(method, path)}
        if summary:
            operation["summary"] = summary
        if names := _NAME.findall(path):
            operation["parameters"] = [
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
            ]
        operation["responses"] = {
            "2XX": {"description": "Done"},
            "default": {"description": "Refused", "content": {"application/json": {"schema": {"$ref": _ERROR}}}},
        }
        paths.setdefault(path, {})[method.lower()] = operation
    code, message = api.error
    error = {"type": "object", "properties": {code: {}, message: {"type": "string"}}, "required": [message]}
    return {
        "openapi": "3.1.0",
        "info": {"title": f"Odradek: {api.title}", "version": __version__},
        "paths": paths,
        "components": {"schemas": {"Error": error}},
    }


_ERROR = "#/components/schemas/Error"


def _operation_id(method: str, path: str) -> str:
    words = re.findall(r"\w+", path) or ["root"]
    return "_".join([method.lower(), *words]).replace("-", "_")


def page() -> str:
    """Return docs/http/index.md."""
    parts = [_HEAD]
    for api in APIS:
        rows: list[tuple[str, ...]] = [("method", "path", "what it does")]
        operations = api.operations()
        has_summary = any(summary for *_, summary in operations)
        rows += [(method, f"`{path}`", summary) for method, path, summary in operations]
        if not has_summary:
            rows = [row[:2] for row in rows]
        served = f"Served by {api.port.listens}. Authentication: {api.port.authentication}."
        about = "\n\n".join(
            textwrap.fill(text, 120, break_on_hyphens=False, break_long_words=False)
            for text in (api.about, f"{served} OpenAPI: {{download}}`{api.name}.json`.")
        )
        parts.append(f"## {api.title}\n\n{about}\n\n{table(rows)}")
    return "\n".join(parts)


_HEAD = """\
# HTTP APIs

Written from the routes of the code (`make reference`), each as an OpenAPI 3.1 document too: paths, methods and errors.
Bodies of the first three are those of Confluent's Schema Registry, Kafka Connect and ksqlDB, so their clients and their
references apply; [Differences](../differences.md) has what differs. Kafka's protocol over HTTPS is described in
[Frames](../formats/frames.md), the ports in [Security](../SECURITY.md).
"""


def main() -> None:
    """Write the page and the documents."""
    FOLDER.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
    for api in APIS:
        path = FOLDER / f"{api.name}.json"
        path.write_text(json.dumps(document(api), indent=1) + "\n", encoding="utf-8")
        print(f"written: docs/http/{path.name}")


if __name__ == "__main__":
    main()
