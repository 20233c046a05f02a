"""A client of a server of stream SQL, for the shell: one connection a request, rows as they come."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import unquote, urlsplit

from odradek.errors import ErrorCode, KafkaError

Json = dict[str, Any]


class RestClient:
    """Requests to one server.

    Args:
        url: http://host:port, or https://user:password@host:port.

    Raises:
        KafkaError: INVALID_CONFIG for another kind of URL.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"--server must be like http://127.0.0.1:8088, not {url!r}")
        self._is_tls = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port or (443 if self._is_tls else 8088)
        self._headers = {"Content-Type": "application/json"}
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()

    def info(self) -> Json:
        """Return what the server says of itself. Raises KafkaError."""
        with self._answer("GET", "/info", None) as answer:
            found: Json = json.loads(answer.read())["KsqlServerInfo"]
            return found

    def execute(self, text: str, properties: Mapping[str, str], variables: Mapping[str, str]) -> list[Json]:
        """Run statements; return their results. Raises KafkaError."""
        body = {"ksql": text, "streamsProperties": dict(properties), "sessionVariables": dict(variables)}
        with self._answer("POST", "/ksql", body) as answer:
            found: list[Json] = json.loads(answer.read())
            return found

    def check_property(self, name: str) -> None:
        """Raise KafkaError for a property that the server does not know."""
        with self._answer("GET", f"/is_valid_property/{name}", None):
            return

    def rows(
        self, text: str, properties: Mapping[str, str], variables: Mapping[str, str]
    ) -> Iterator[str | Json | list[Any]]:
        """Yield the columns of a query, {"columnNames": ...}, then its rows as lists; of PRINT, lines of text.

        Closing the iterator ends the query. Raises KafkaError.
        """
        body = {"sql": text, "properties": dict(properties), "sessionVariables": dict(variables)}
        with self._answer("POST", "/query-stream", body) as answer:
            is_text = (answer.headers.get("content-type") or "").startswith("text/plain")
            for line in answer:
                shown = line.decode().rstrip("\n")
                if is_text:
                    yield shown
                    continue
                found = json.loads(shown)
                if isinstance(found, dict) and "error_code" in found:
                    raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(found["message"]))
                yield found

    def _answer(self, method: str, path: str, body: Json | None) -> _Answer:
        connection = self._connection()
        try:
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, path, data, self._headers)
            answer = connection.getresponse()
        except (OSError, HTTPException) as error:
            connection.close()
            reason = getattr(error, "strerror", None) or error or type(error).__name__
            address = f"{self._host}:{self._port}"
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE, f"no server of stream SQL at {address}: {reason}"
            ) from None
        if answer.status >= 400:
            with _Answer(connection, answer) as refused:
                raise _refusal(answer.status, refused.read())
        return _Answer(connection, answer)

    def _connection(self) -> HTTPConnection:
        if self._is_tls:
            return HTTPSConnection(self._host, self._port, context=ssl.create_default_context())
        return HTTPConnection(self._host, self._port)


class _Answer:
    """A response that closes its connection."""

    def __init__(self, connection: HTTPConnection, answer: HTTPResponse) -> None:
        self._connection = connection
        self._answer = answer
        self.headers = answer.headers

    def read(self) -> bytes:
        return self._answer.read()

    def __iter__(self) -> Iterator[bytes]:
        while line := self._answer.readline():
            yield line

    def __enter__(self) -> _Answer:
        return self

    def __exit__(self, *_: object) -> None:
        self._answer.close()
        self._connection.close()


def _refusal(status: int, body: bytes) -> KafkaError:
    try:
        found = json.loads(body)
        message = str(found["message"])
    except (ValueError, KeyError, TypeError):
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"HTTP {status}")
    statement = str(found.get("statementText") or "")
    shown = f"{message}\n  {' '.join(statement.split())[:100]}" if statement else message
    return KafkaError(ErrorCode.INVALID_REQUEST if status < 500 else ErrorCode.UNKNOWN_SERVER_ERROR, shown)


def names(entities: Sequence[Json]) -> list[str]:
    """Return the streams, tables, topics and functions that results list, for completion."""
    found = []
    for each in entities:
        for kind in ("streams", "tables", "topics", "functions"):
            found += [str(one["name"]) for one in each.get(kind, ())]
    return found
