"""Schemas by subject and by id: what serializers need of a schema registry.

`HttpRegistry` speaks Confluent's REST API. An id never changes its schema, nor a schema of a subject its id: both are
kept once seen: after the first record of a schema no call is made. Calls block; the first send does.
"""

from __future__ import annotations

import base64
import json
import threading
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

from odradek.errors import ErrorCode, KafkaError

_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as a registry keeps it."""

    text: str
    kind: str = "AVRO"  # AVRO | JSON | PROTOBUF


class Registry(Protocol):
    """A schema registry, as serializers see it. Raises KafkaError where it cannot answer."""

    def register(self, subject: str, schema: Schema) -> int:
        """The id of a schema under a subject; a new one if it is not there yet."""
        ...

    def lookup(self, subject: str, schema: Schema) -> int:
        """The id of a schema that is registered under a subject. Raises KafkaError(INVALID_RECORD) if it is not."""
        ...

    def schema(self, schema_id: int) -> Schema:
        """The schema of an id. Raises KafkaError(INVALID_RECORD) where there is none."""
        ...


class MemoryRegistry:
    """A registry in this process: for tests, and for programs that share no schemas. No compatibility is checked."""

    def __init__(self) -> None:
        self._ids: dict[Schema, int] = {}
        self._subjects: set[tuple[str, Schema]] = set()

    def register(self, subject: str, schema: Schema) -> int:
        """See Registry.register."""
        self._subjects.add((subject, schema))
        return self._ids.setdefault(schema, len(self._ids) + 1)

    def lookup(self, subject: str, schema: Schema) -> int:
        """See Registry.lookup."""
        if (subject, schema) not in self._subjects:
            raise KafkaError(ErrorCode.INVALID_RECORD, f"the schema is not registered under {subject!r}")
        return self._ids[schema]

    def schema(self, schema_id: int) -> Schema:
        """See Registry.schema."""
        for schema, number in self._ids.items():
            if number == schema_id:
                return schema
        raise KafkaError(ErrorCode.INVALID_RECORD, f"the registry has no schema {schema_id}")


class HttpRegistry:
    """A registry behind Confluent's REST API.

    Args:
        url: such as https://registry.example
        user, password: for basic authentication.
        timeout_ms: of one call.
    """

    def __init__(self, url: str, *, user: str | None = None, password: str = "", timeout_ms: int = 10_000) -> None:
        if urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"a registry's URL begins with http:// or https://, not {url!r}")
        self._url = url.rstrip("/")
        self._timeout_s = timeout_ms / 1000
        self._headers = {"Accept": _CONTENT_TYPE, "Content-Type": _CONTENT_TYPE}
        if user is not None:
            token = base64.b64encode(f"{user}:{password}".encode()).decode()
            self._headers["Authorization"] = f"Basic {token}"
        self._lock = threading.Lock()
        self._ids: dict[tuple[str, Schema], int] = {}
        self._schemas: dict[int, Schema] = {}

    def register(self, subject: str, schema: Schema) -> int:
        """See Registry.register. Raises KafkaError(INVALID_RECORD) where it is not compatible with earlier ones."""
        return self._id(subject, schema, f"/subjects/{quote(subject, safe='')}/versions")

    def lookup(self, subject: str, schema: Schema) -> int:
        """See Registry.lookup."""
        return self._id(subject, schema, f"/subjects/{quote(subject, safe='')}")

    def schema(self, schema_id: int) -> Schema:
        """See Registry.schema."""
        found = self._schemas.get(schema_id)
        if found is None:
            answer = self._call("GET", f"/schemas/ids/{schema_id}", None)
            found = Schema(str(answer["schema"]), str(answer.get("schemaType", "AVRO")))
            with self._lock:
                self._schemas[schema_id] = found
        return found

    def _id(self, subject: str, schema: Schema, path: str) -> int:
        found = self._ids.get((subject, schema))
        if found is None:
            body = {"schema": schema.text} | ({} if schema.kind == "AVRO" else {"schemaType": schema.kind})
            found = int(self._call("POST", path, body)["id"])
            with self._lock:
                self._ids[subject, schema] = found
        return found

    def _call(self, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        request = urllib.request.Request(
            self._url + path, None if body is None else json.dumps(body).encode(), self._headers, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s) as response:
                answer: dict[str, Any] = json.loads(response.read())
                return answer
        except urllib.error.HTTPError as error:
            raise KafkaError(_code(error.code), f"the registry refused {path}: {_message(error)}") from error
        except (OSError, ValueError) as error:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"the registry at {self._url} fails: {error}") from error


def _code(status: int) -> ErrorCode:
    if status in (401, 403):
        return ErrorCode.SASL_AUTHENTICATION_FAILED
    return ErrorCode.NETWORK_EXCEPTION if status == 429 or status >= 500 else ErrorCode.INVALID_RECORD


def _message(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read())["message"])[:500]
    except (ValueError, KeyError, TypeError, OSError):
        return f"HTTP {error.code}"
