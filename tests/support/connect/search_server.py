"""A search cluster for tests: the part of OpenSearch's API that a sink uses, with its versions, conflicts and refusals.

Source: OpenSearch's document, bulk and index APIs. Deletes leave their version behind, as the service does for a while
(index.gc_deletes).
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.connect.http_server import Answer, Request, serving

_NUMBERS = {"byte": 8, "short": 16, "integer": 32, "long": 64}


class SearchServer:
    """Indices with their mappings and documents.

    Attributes:
        busy: how many more documents are refused with 429.
        bulks: number of bulk requests.
    """

    def __init__(self) -> None:
        self.mappings: dict[str, dict[str, Any]] = {}
        self.documents: dict[str, dict[str, dict[str, Any]]] = {}
        self.versions: dict[tuple[str, str], int] = {}
        self.busy = self.bulks = 0

    @contextmanager
    def running(self) -> Iterator[str]:
        with serving(self.answer) as url:
            yield url

    def answer(self, request: Request) -> Answer:
        path = request.path.partition("?")[0].strip("/")
        if path == "_bulk":
            body = gzip.decompress(request.body) if request.body[:2] == b"\x1f\x8b" else request.body
            return 200, json.dumps(self._bulk(body)).encode()
        if request.method == "HEAD":
            return (200 if path in self.mappings else 404), b""
        if request.method == "PUT":
            if path in self.mappings:
                return 400, _error("resource_already_exists_exception", f"index [{path}] already exists")
            body = gzip.decompress(request.body) if request.body[:2] == b"\x1f\x8b" else request.body
            self.mappings[path] = json.loads(body)["mappings"]["properties"]
            self.documents[path] = {}
            return 200, b'{"acknowledged": true}'
        return 404, _error("no_handler", request.path)

    def _bulk(self, body: bytes) -> dict[str, Any]:
        self.bulks += 1
        assert body.endswith(b"\n"), "a bulk request ends with a newline"
        lines = iter(body.splitlines())
        items = []
        for line in lines:
            [(operation, target)] = json.loads(line).items()
            document = None if operation == "delete" else json.loads(next(lines))
            status, error = self._apply(operation, target, document)
            item: dict[str, Any] = {"_index": target["_index"], "_id": target["_id"], "status": status}
            items.append({operation: item | ({"error": error} if error else {})})
        return {"took": 1, "errors": any("error" in next(iter(each.values())) for each in items), "items": items}

    def _apply(self, operation: str, target: Any, document: Any) -> tuple[int, Any]:
        name, own = target["_index"], target["_id"]
        if self.busy > 0:
            self.busy -= 1
            return 429, {"type": "rejected_execution_exception", "reason": "the queue is full"}
        known = self.documents.setdefault(name, {})
        mapping = self.mappings.setdefault(name, {})
        fields = document["doc"] if operation == "update" else document or {}
        for field, value in fields.items():
            kind = mapping.setdefault(field, {"type": "long"} if isinstance(value, int) else {})
            if kind.get("type") in _NUMBERS and isinstance(value, str) and not value.lstrip("-").isdigit():
                return 400, {"type": "mapper_parsing_exception", "reason": f"failed to parse field [{field}]"}
        if target.get("version_type") == "external":
            if target["version"] <= self.versions.get((name, own), -1):
                return 409, {"type": "version_conflict_engine_exception", "reason": "current version is higher"}
            self.versions[name, own] = target["version"]
        if operation == "delete":
            return (200 if known.pop(own, None) is not None else 404), None
        if operation == "update":
            assert document.get("doc_as_upsert")
            known[own] = {**known.get(own, {}), **fields}
        else:
            known[own] = fields
        return 200, None


def _error(kind: str, reason: str) -> bytes:
    return json.dumps({"error": {"type": kind, "reason": reason}, "status": 400}).encode()
