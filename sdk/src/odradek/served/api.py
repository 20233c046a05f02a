"""The REST API of served tables: a request to a response. Knows no transport.

    GET    /                      all tables
    POST   /                      serve a table: {"name", "topic", ...}
    GET    /{name}                describe it; with from, to, prefix, limit or cursor: a range of keys
    GET    /{name}/{key}          the rows of a key; with window, or from and to: of these windows
    POST   /{name}                {"keys": [...]}: the rows of several keys
    GET    ...?changes=1          changes as server-sent events, of the table or of the key
    POST   /{name}/stop, /resume  stop following the topic; follow it again
    DELETE /{name}                drop it

    min_offset=P:N       wait until the table covers offset N of partition P; may be repeated; N alone: of partition 0
    wait_ms              how long: 5,000 by default, at most 20,000; of changes: 10,000 by default

`/tables` may precede each path. A response is status, media type and body; JSON, but for changes. An error is
`{"error": <Kafka error name>, "message"}`. Times of windows are ms since the epoch, or 2026-11-23T09:30:00Z.

A server-sent event has the id of what follows it: a browser's EventSource that reconnects goes on from there, and so a
function, whose answers end, can push. ACLs, of the table's topic:

    list, describe          DESCRIBE
    rows, changes           READ
    serve                   READ and ALTER
    stop, resume, drop      ALTER
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, unquote_to_bytes

from odradek.dispatcher.access import Access
from odradek.engine.access.acls import Acls
from odradek.errors import ErrorCode, KafkaError
from odradek.http.json_body import NotJson, parse_json
from odradek.model.acl import AclOperation, ResourceType
from odradek.model.table import LIMIT_DEFAULT, WAIT_MS_MAX, answer_document, plain, status_document, table_of
from odradek.served.definition import not_found
from odradek.served.reads import Bounds, Changes, Freshness, TableReader
from odradek.served.tables import Tables

JSON, EVENTS = "application/json", "text/event-stream"

_audit = logging.getLogger("odradek.audit")
_BODY_BYTES_MAX = 256 * 1024
_WAIT_MS, _CHANGES_WAIT_MS = 5_000, 10_000
_RETRY_MS = 200  # after which a browser connects again
_RANGE = ("from", "to", "prefix", "limit", "cursor")
_KNOWN = {*_RANGE, "key", "window", "from_window", "to_window", "min_offset", "wait_ms", "changes", "after"}
_MIN_OFFSET = re.compile(r"(?:(\d{1,6}):)?(\d{1,19})")


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request, independent of the transport."""

    method: str
    path: str  # still percent-encoded
    query: str
    body: bytes
    principal: str
    client_host: str
    headers: Mapping[str, str] = field(default_factory=dict)  # names in lower case


@dataclass(frozen=True, slots=True)
class Answer:
    """The response."""

    status: int
    body: str
    content_type: str = JSON


class TablesApi:
    """Routes requests, checks authorization, and calls `Tables` and `TableReader`.

    Args:
        tables, reader: what is called.
        acls: the rules of authorization.
    """

    def __init__(self, tables: Tables, reader: TableReader, acls: Acls) -> None:
        self._tables = tables
        self._reader = reader
        self._acls = acls

    async def answer(self, request: Request) -> Answer:
        """Return the response. No client can cause an exception but the store's."""
        code = "NONE"
        try:
            access = Access(await self._acls.current(), request.principal, request.client_host)
            result = await self._route(request, access)
            if isinstance(result, str):
                return Answer(200, result, EVENTS)
            return Answer(200, json.dumps(result))
        except KafkaError as refused:
            code = refused.code.name
            return Answer(refused.code.http_status, json.dumps({"error": code, "message": refused.message}))
        finally:
            if request.method not in ("GET", "HEAD") and not self._is_lookup(request):
                _audit.info(_line(request, code))

    def _is_lookup(self, request: Request) -> bool:
        return request.method == "POST" and len(_parts(request.path)) == 1

    async def _route(self, request: Request, access: Access) -> dict[str, Any] | str:
        parts = _parts(request.path)
        query = _Query(request.query)
        match request.method, parts:
            case "GET", []:
                tables = await self._tables.list_all()
                return {
                    "tables": [plain(table) for table in tables if access.may_topic(AclOperation.DESCRIBE, table.topic)]
                }
            case "POST", []:
                return await self._serve(_document(request), access)
            case "POST", [name]:
                return await self._get_many(name, _document(request), query, access)
            case "POST", [name, "stop" | "resume" as step]:
                await self._known(name, access, AclOperation.ALTER)
                return plain(await (self._tables.stop(name) if step == "stop" else self._tables.resume(name)))
            case "DELETE", [name]:
                await self._known(name, access, AclOperation.ALTER)
                await self._tables.drop(name)
                return {}
            case "GET", [name] if not query.is_of_rows:
                await self._known(name, access, AclOperation.DESCRIBE)
                return status_document(await self._tables.describe(name))
            case "GET", [name, *key_path] if len(key_path) <= 1:
                await self._readable(name, access)
                return await self._rows(name, key_path[0] if key_path else query.one("key"), query, request)
        raise _invalid(f"tables have no {request.method} {request.path!r}")

    async def _rows(self, name: str, key: str | None, query: _Query, request: Request) -> dict[str, Any] | str:
        if query.one("changes") is not None:
            return await self._changes(name, key, query, request)
        if key is not None:
            return answer_document(await self._reader.get(name, key, query.bounds("from", "to"), query.freshness()))
        return answer_document(
            await self._reader.range(
                name,
                (query.one("from"), query.one("to"), query.one("prefix")),
                query.bounds("from_window", "to_window"),
                query.freshness(),
                limit=query.number("limit", LIMIT_DEFAULT),
                cursor=query.one("cursor") or "",
            )
        )

    async def _get_many(self, name: str, document: Mapping[str, Any], query: _Query, access: Access) -> dict[str, Any]:
        await self._readable(name, access)
        keys = document.get("keys")
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys) or set(document) != {"keys"}:
            raise _invalid('several keys are asked for with {"keys": ["...", ...]}')
        answers = await self._reader.get_many(name, keys, query.bounds("from", "to"), query.freshness())
        return {"answers": [answer_document(table_answer) for table_answer in answers]}

    async def _changes(self, name: str, key: str | None, query: _Query, request: Request) -> dict[str, Any] | str:
        after = request.headers.get("last-event-id") or query.one("after")
        offsets = None if after is None else _read_offsets(after)
        wait_ms = query.wait_ms(_CHANGES_WAIT_MS)
        changes = await self._reader.changes(name, key, query.bounds("from", "to"), offsets, wait_ms=wait_ms)
        if query.one("changes") == "json":
            return {"changes": [plain(change) for change in changes.changes], "after": _write_offsets(changes.offsets)}
        return events(changes, None if after is None else _read_offsets(after))

    async def _serve(self, document: Mapping[str, Any], access: Access) -> dict[str, Any]:
        if {"created_ms", "state"} & document.keys():
            raise _invalid("created_ms and state are set by the service")
        table = table_of(document)
        access.require(AclOperation.READ, ResourceType.TOPIC, table.topic)
        access.require(AclOperation.ALTER, ResourceType.TOPIC, table.topic)
        return plain(await self._tables.serve(table))

    async def _known(self, name: str, access: Access, operation: AclOperation) -> None:
        _require(name, (await self._tables.get(name)).topic, access, operation)

    async def _readable(self, name: str, access: Access) -> None:
        """The same for rows: by the kept definition, so that a lookup is not two reads."""
        definition = await self._reader.table(name)
        _require(name, definition.table.topic, access, AclOperation.READ)


def _require(name: str, topic: str, access: Access, operation: AclOperation) -> None:
    """Raise KafkaError if the caller may not do it: a table of a hidden topic is answered as one that is not there."""
    if not access.may_topic(AclOperation.DESCRIBE, topic):
        raise not_found(name)
    access.require(operation, ResourceType.TOPIC, topic)


class _Query:
    """The parameters of a request. Raises KafkaError(INVALID_REQUEST) for unknown ones."""

    def __init__(self, text: str) -> None:
        try:
            self._values = parse_qs(text, keep_blank_values=True, max_num_fields=1_000)
        except ValueError:
            raise _invalid("too many parameters") from None
        if unknown := sorted(set(self._values) - _KNOWN):
            raise _invalid(f"unknown parameter {unknown[0]!r}: use {', '.join(sorted(_KNOWN))}")

    @property
    def is_of_rows(self) -> bool:
        """Return True if the request is for rows, not for the table itself."""
        return bool(set(self._values) & {*_RANGE, "key", "changes"})

    def one(self, name: str) -> str | None:
        values = self._values.get(name)
        if values is not None and len(values) > 1:
            raise _invalid(f"give {name} once")
        return None if values is None else values[0]

    def number(self, name: str, default: int) -> int:
        text = self.one(name)
        if text is None:
            return default
        if not re.fullmatch(r"-?\d{1,15}", text):
            raise _invalid(f"{name} must be a whole number, not {text!r}")
        return int(text)

    def bounds(self, first: str, before: str) -> Bounds:
        """The windows that are asked for."""
        if (window := self.one("window")) is not None:
            start_ms = _time_ms("window", window)
            return Bounds(start_ms, start_ms + 1)
        from_text, to_text = self.one(first), self.one(before)
        return Bounds(
            None if from_text is None else _time_ms(first, from_text),
            None if to_text is None else _time_ms(before, to_text),
        )

    def wait_ms(self, default: int) -> int:
        wait_ms = self.number("wait_ms", default)
        if not 0 <= wait_ms <= WAIT_MS_MAX:
            raise _invalid(f"wait_ms must be 0 to {WAIT_MS_MAX}, not {wait_ms}")
        return wait_ms

    def freshness(self) -> Freshness:
        offsets: dict[int, int] = {}
        for text in self._values.get("min_offset", ()):
            matched = _MIN_OFFSET.fullmatch(text)
            if matched is None:
                raise _invalid(f"min_offset is PARTITION:OFFSET, not {text!r}")
            number = int(matched[1] or 0)
            offsets[number] = max(offsets.get(number, 0), int(matched[2]))
        return Freshness(offsets, self.wait_ms(_WAIT_MS))


def events(changes: Changes, after: Mapping[int, int] | None) -> str:
    """Changes as server-sent events: each with the id after which a reader goes on. Pure."""
    lines = [f"retry: {_RETRY_MS}\n\n"]
    at = dict(after or {})
    for change in changes.changes:
        at[change.partition] = max(at.get(change.partition, 0), change.offset + 1)
        lines.append(f"id: {_write_offsets(at)}\nevent: change\ndata: {json.dumps(plain(change))}\n\n")
    lines.append(f"id: {_write_offsets(changes.offsets)}\n\n")
    return "".join(lines)


def _write_offsets(offsets: Mapping[int, int]) -> str:
    return ",".join(f"{number}:{offset}" for number, offset in sorted(offsets.items()))


def _read_offsets(text: str) -> dict[int, int]:
    offsets = {}
    for pair in filter(None, text.split(",")):
        matched = _MIN_OFFSET.fullmatch(pair)
        if matched is None or matched[1] is None:
            raise _invalid(f"the id of an event is PARTITION:OFFSET,..., not {text[:100]!r}")
        offsets[int(matched[1])] = int(matched[2])
    return offsets


def _time_ms(name: str, text: str) -> int:
    if re.fullmatch(r"-?\d{1,15}", text):
        return int(text)
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise _invalid(
            f"{name} must be ms since the epoch, or a time such as 2026-11-23T09:30:00Z, not {text!r}"
        ) from None
    return round((when if when.tzinfo is not None else when.replace(tzinfo=UTC)).timestamp() * 1000)


def _parts(path: str) -> list[str]:
    """The parts of a path, decoded, without the optional `tables` before them. A key may have any bytes."""
    raw = path.removeprefix("/").split("/")
    if raw[0] == "tables":
        raw = raw[1:]
    parts = [unquote_to_bytes(part).decode("utf-8", "surrogateescape") for part in raw]
    return parts[:-1] if parts and not parts[-1] else parts


def _document(request: Request) -> dict[str, Any]:
    try:
        document = parse_json(request.body or b"null") if len(request.body) <= _BODY_BYTES_MAX else None
    except NotJson as error:
        raise _invalid(f"the body must be a JSON object: {error}") from None
    if not isinstance(document, dict):
        raise _invalid(f"the body must be a JSON object of at most {_BODY_BYTES_MAX} bytes")
    return document


def _line(request: Request, code: str) -> str:
    line = {
        "api": "TABLES",
        "method": request.method,
        "path": request.path,
        "principal": request.principal,
        "host": request.client_host,
        "error": code,
    }
    return json.dumps(line)


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
