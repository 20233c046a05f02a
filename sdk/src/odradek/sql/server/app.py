"""The paths of ksqlDB's REST API, as an ASGI application.

Statements run one at a time, in a thread of their own; queries beside them (transient.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from importlib import import_module
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from odradek.errors import KafkaError, OdradekError
from odradek.extras import extra
from odradek.http.json_body import NotJson, parse_json
from odradek.sql.plan import Selected
from odradek.sql.server.answers import DELIMITED, JSON, KSQL_V1, PROTOBUF, Result, body, chosen, printed_body
from odradek.sql.server.entities import text_of
from odradek.sql.server.errors import (
    BAD_REQUEST,
    BAD_STATEMENT,
    CATCH_UP_TIMEOUT,
    NOT_FOUND,
    SERVER_ERROR,
    TOO_LARGE,
    RestError,
    refused,
)
from odradek.sql.server.inserts import RowWriter
from odradek.sql.server.service import SqlService
from odradek.sql.server.transient import Transients
from odradek.sql.session import Row

_log = logging.getLogger("odradek.sql.server")
_LINE_BYTES_MAX = 1024 * 1024
_LOT_ROWS_MAX = 1_000  # of /inserts-stream, in one write
_LOT_WAIT_S = 0.02  # for more rows, before a lot is written
_NORMAL, _POLICY, _INTERNAL = 1000, 1008, 1011  # codes of a closing WebSocket
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What a server says of itself."""

    version: str
    cluster_id: str
    service_id: str
    address: str  # host:port
    start_ms: int
    metadata: Mapping[str, Any] = field(default_factory=dict)


def make_app(service: SqlService, transients: Transients, info: ServerInfo) -> ASGIApp:
    """Return the application."""
    service.pushes = transients
    api = _Api(service, transients, info)
    routes = [
        Route("/", lambda _: RedirectResponse("/info", 307)),
        Route("/info", _answering(api.info)),
        Route("/healthcheck", _answering(api.healthcheck)),
        Route("/clusterStatus", _answering(api.cluster_status)),
        Route("/chc/live", _answering(api.alive)),
        Route("/chc/ready", _answering(api.alive)),
        Route("/v1/metadata", _answering(api.metadata)),
        Route("/v1/metadata/id", _answering(api.metadata_id)),
        Route("/status", _answering(api.statuses)),
        Route("/status/{kind}/{name:path}/{action}", _answering(api.status)),
        Route("/is_valid_property/{name}", _answering(api.is_valid_property)),
        Route("/ksql", _answering(api.ksql), methods=["POST"]),
        Route("/ksql/terminate", _answering(api.terminate), methods=["POST"]),
        Route("/query", _answering(api.query), methods=["POST"]),
        Route("/query-stream", _answering(api.query_stream), methods=["POST"]),
        Route("/close-query", _answering(api.close_query), methods=["POST"]),
        Route("/inserts-stream", _answering(api.inserts_stream), methods=["POST"]),
        WebSocketRoute("/ws/query", api.ws_query),
    ]
    return Starlette(routes=routes, exception_handlers={404: _not_found, 405: _not_allowed})


Handler = Callable[[Request], Awaitable[Response]]


def _answering(handler: Handler) -> Handler:
    """Return a handler that answers errors as ksqlDB does."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except RestError as error:
            return _error(error)
        except ClientDisconnect:
            raise
        except OdradekError as error:
            return _error(RestError(SERVER_ERROR, str(error)))
        except Exception as error:  # a bug: without its stack trace for the client
            _log.exception("%s %s", request.method, request.url.path)
            return _error(RestError(SERVER_ERROR, f"unexpected {type(error).__name__}: see the log of the server"))

    return answer


def _error(error: RestError) -> Response:
    return Response(text_of(error.document()), error.status, media_type=KSQL_V1)


def refusal(status: int, message: str) -> tuple[bytes, str]:
    """Return the body and the content type of an error as ksqlDB answers it."""
    return text_of(RestError(status * 100, message).document()).encode(), KSQL_V1


async def _not_found(request: Request, _: Exception) -> Response:
    return _error(RestError(NOT_FOUND, f"there is no {request.url.path}"))


async def _not_allowed(request: Request, _: Exception) -> Response:
    return _error(RestError(40500, f"{request.url.path} does not take {request.method}"))


class _Api:
    def __init__(self, service: SqlService, transients: Transients, info: ServerInfo) -> None:
        self._service = service
        self._transients = transients
        self._info = info
        self._statements = ThreadPoolExecutor(1, thread_name_prefix="sql-statements")

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._statements, work)

    # --- what the server is

    async def info(self, _: Request) -> Response:
        info = {
            "version": self._info.version,
            "kafkaClusterId": self._info.cluster_id,
            "ksqlServiceId": self._info.service_id,
            "serverStatus": "DEGRADED" if self._service.is_degraded else "RUNNING",
        }
        return JSONResponse({"KsqlServerInfo": info}, media_type=KSQL_V1)

    async def healthcheck(self, _: Request) -> Response:
        try:
            await asyncio.to_thread(self._service.topics.partitions)
            reaches = True
        except OdradekError:
            reaches = False
        details = {"metastore": {"isHealthy": True}, "kafka": {"isHealthy": reaches},
                   "commandRunner": {"isHealthy": not self._service.is_degraded}}  # fmt: skip
        healthy = reaches and not self._service.is_degraded
        found = {"isHealthy": healthy, "details": details, "serverState": "READY"}
        return JSONResponse(found, 200 if healthy else 503, media_type=KSQL_V1)

    async def alive(self, _: Request) -> Response:
        return Response(status_code=200)

    async def cluster_status(self, _: Request) -> Response:
        one = {
            "hostAlive": True,
            "lastStatusUpdateMs": self._info.start_ms,
            "activeStandbyPerQuery": {},
            "hostStoreLags": {"stateStoreLags": {}, "updateTimeMs": 0},
        }
        return JSONResponse({"clusterStatus": {self._info.address: one}}, media_type=KSQL_V1)

    async def metadata(self, _: Request) -> Response:
        scope = {"kafka-cluster": self._info.cluster_id, "ksql-cluster": self._info.service_id}
        found = {"version": self._info.version, "clusterInfo": {"id": "", "scope": {"path": [], "clusters": scope}}}
        return JSONResponse(found, media_type=KSQL_V1)

    async def metadata_id(self, _: Request) -> Response:
        scope = {"kafka-cluster": self._info.cluster_id, "ksql-cluster": self._info.service_id}
        return JSONResponse({"id": "", "scope": {"path": [], "clusters": scope}}, media_type=KSQL_V1)

    async def is_valid_property(self, request: Request) -> Response:
        name = request.path_params["name"]
        self._service.check_property(name)
        return JSONResponse(True, media_type=KSQL_V1)

    # --- statements

    async def ksql(self, request: Request) -> Response:
        chosen(request.headers.get("accept", ""), (KSQL_V1, JSON))
        given = await _document(request)
        text = _text(given, "ksql")
        properties, variables = _properties(given, "streamsProperties"), _mapping(given, "sessionVariables")
        after = given.get("commandSequenceNumber")
        if after is not None and (not isinstance(after, int) or isinstance(after, bool)):
            raise RestError(BAD_REQUEST, "commandSequenceNumber must be a whole number")
        if after is not None and after >= self._service.next_number:
            message = f"statement {after} has not run on this server: the last one is {self._service.next_number - 1}"
            raise RestError(CATCH_UP_TIMEOUT, message)
        found = await self._run(lambda: self._service.execute(text, properties, variables))
        return Response(text_of(found), media_type=KSQL_V1)

    async def terminate(self, request: Request) -> Response:
        given = await _document(request)
        topics = given.get("deleteTopicList", [])
        if not isinstance(topics, list) or not all(isinstance(each, str) for each in topics):
            raise RestError(BAD_REQUEST, "deleteTopicList must be a list of names of topics")
        found = await self._run(lambda: self._service.terminate(topics))
        return Response(text_of(found), media_type=KSQL_V1)

    async def statuses(self, _: Request) -> Response:
        return JSONResponse({"commandStatuses": self._service.statuses()}, media_type=KSQL_V1)

    async def status(self, request: Request) -> Response:
        command_id = "/".join(request.path_params[each] for each in ("kind", "name", "action"))
        found = self._service.status(command_id)
        if found is None:
            raise RestError(NOT_FOUND, f"unknown command {command_id}: this server has run no such statement")
        return JSONResponse(found, media_type=KSQL_V1)

    # --- queries

    async def query(self, request: Request) -> Response:
        given = await _document(request)
        offered = (KSQL_V1, JSON, DELIMITED, PROTOBUF)
        content_type = chosen(request.headers.get("accept", ""), offered)
        content_type = KSQL_V1 if content_type == JSON else content_type
        return await self._answer(_text(given, "ksql"), given, "streamsProperties", content_type)

    async def query_stream(self, request: Request) -> Response:
        given = await _document(request)
        content_type = chosen(request.headers.get("accept", ""), (DELIMITED, JSON, KSQL_V1, PROTOBUF))
        properties = "properties" if "properties" in given else "streamsProperties"
        text = _text(given, "sql")
        return await self._answer(text, given, properties, content_type, prints=content_type == DELIMITED)

    async def _answer(
        self, text: str, given: Mapping[str, Any], properties: str, content_type: str, *, prints: bool = True
    ) -> Response:
        """Answer a query. Args: prints: whether PRINT, whose records are lines of text, may be answered."""
        if content_type == PROTOBUF:
            with extra("protobuf"):
                import_module("google.protobuf")  # what is missing is named before the answer begins
        wanted, variables = _properties(given, properties), _mapping(given, "sessionVariables")
        selected, shown, keys = await self._run(lambda: self._service.selected(text, wanted, variables))
        if selected.plan.mode == "batch":
            try:
                rows = await self._transients.pull(selected.plan)
            except KafkaError as error:
                raise refused(error, shown) from None
            result = Result(selected, f"query_{selected.plan.query_id}", keys)
            return StreamingResponse(body(result, _one_lot(rows), content_type), media_type=content_type)
        if selected.plan.query_id.startswith("PRINT_"):
            if not prints:
                chosen(content_type, (DELIMITED,))
            content_type = "text/plain"
        return await self._push(selected, shown, content_type)

    async def _push(self, selected: Selected, text: str, content_type: str) -> Response:
        running = self._transients.push(selected.plan, text)
        query = await running.__aenter__()  # here, so that too many of them are an error and not a broken answer
        result = Result(selected, query.query_id, ())

        async def parts() -> AsyncIterator[bytes]:
            try:
                found = query.rows()
                lines = printed_body(result, found) if content_type == "text/plain" else (
                    body(result, found, content_type)
                )  # fmt: skip
                async for part in lines:
                    yield part
            finally:
                await running.__aexit__(None, None, None)

        return StreamingResponse(parts(), media_type=content_type)

    async def close_query(self, request: Request) -> Response:
        query_id = _text(await _document(request), "queryId")
        if not self._transients.close_query(query_id):
            raise RestError(BAD_REQUEST, f"No query with id {query_id}")
        return Response(status_code=200)

    async def ws_query(self, socket: WebSocket) -> None:
        await socket.accept()
        try:
            given = parse_json(socket.query_params.get("request", ""))
            text = _text(given, "ksql")
            wanted, variables = _properties(given, "streamsProperties"), _mapping(given, "sessionVariables")
            selected, shown, _ = await self._run(lambda: self._service.selected(text, wanted, variables))
            if selected.plan.mode == "batch":
                await self._to_socket(socket, Result(selected, "", ()), _one_lot(await self._transients.pull(
                    selected.plan)))  # fmt: skip
            else:
                async with self._transients.push(selected.plan, shown) as query:
                    await self._to_socket(socket, Result(selected, query.query_id, ()), query.rows())
            await socket.close(_NORMAL, "done")
        except WebSocketDisconnect:
            return
        except ValueError:
            await _close(socket, _POLICY, 'the parameter request must be JSON: {"ksql": "SELECT ...;"}')
        except (RestError, KafkaError) as error:
            is_callers = isinstance(error, RestError) and error.status < 500
            await _close(socket, _POLICY if is_callers else _INTERNAL, str(error))

    async def _to_socket(self, socket: WebSocket, result: Result, lots: AsyncIterator[list[Row]]) -> None:
        """Send columns and rows, until there are no more or the client leaves."""

        async def send() -> None:
            await socket.send_text(text_of(result.fields()))
            async for rows in lots:
                for row in rows:
                    await socket.send_text(text_of(result.row(row)))

        async def left() -> None:
            while True:
                await socket.receive_text()

        tasks = [asyncio.ensure_future(send()), asyncio.ensure_future(left())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        finally:
            for each in tasks:
                each.cancel()

    # --- rows

    async def inserts_stream(self, request: Request) -> Response:
        content_type = chosen(request.headers.get("accept", ""), (DELIMITED, JSON))
        lines = _lines(request)
        first = await anext(lines, b"")
        given = _parsed(first)
        writer = RowWriter(self._service.defined.planner.catalog, _text(given, "target"))

        async def acknowledged() -> AsyncIterator[bytes]:
            is_array, sequence = content_type == JSON, 0
            yield b"[" if is_array else b""
            async for lot in _lots(lines):
                acks = await self._insert(writer, lot, sequence)
                lead = ",\n" if is_array and sequence else ""
                sequence += len(acks)
                texts = [text_of(each) for each in acks]
                yield (lead + ",\n".join(texts) if is_array else "".join(f"{each}\n" for each in texts)).encode()
                if acks[-1]["status"] == "error":
                    break  # the rows after it are not written, as with ksqlDB
            if is_array:
                yield b"]\n"

        return _Acknowledging(acknowledged(), media_type=content_type)

    async def _insert(self, writer: RowWriter, lot: list[bytes], sequence: int) -> list[dict[str, Any]]:
        """Write rows up to the first wrong one; return an acknowledgement of each, and the error at last."""
        documents: list[bytes] = []
        problem: RestError | None = None
        for line in lot:
            try:
                documents.append(writer.document(_parsed(line)))
            except RestError as error:
                problem = error
                break
        if documents:
            try:
                write = self._service.engine.insert_documents
                await asyncio.to_thread(write, writer.plan, documents)
            except KafkaError as error:
                problem, documents = refused(error), []
        acks: list[dict[str, Any]] = [{"status": "ok", "seq": sequence + number} for number in range(len(documents))]
        if problem is not None:
            found = {"status": "error", "seq": sequence + len(acks)}
            acks.append({**found, "error_code": problem.code, "message": problem.message})
        return acks


class _Acknowledging(StreamingResponse):
    """An answer to a request that is still being read: it leaves what the client sends to whoever reads it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(ClientDisconnect, OSError):
            await self.stream_response(send)


async def _one_lot(rows: list[Row]) -> AsyncIterator[list[Row]]:
    yield rows


async def _close(socket: WebSocket, code: int, reason: str) -> None:
    encoded = reason.encode()[:120]  # a close frame has 125 bytes
    await socket.close(code, encoded.decode(errors="ignore"))


# --- bodies of requests


async def _document(request: Request) -> dict[str, Any]:
    return _parsed(await request.body())


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        found: Any = parse_json(data, parse_float=Decimal)
    except NotJson as error:
        raise RestError(BAD_REQUEST, f"the body is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise RestError(BAD_REQUEST, "the body must be a JSON object")
    return found


def _text(given: Any, name: str) -> str:
    found = given.get(name) if isinstance(given, dict) else None
    if not isinstance(found, str) or not found.strip():
        raise RestError(BAD_REQUEST, f'the body needs "{name}", a text')
    return found


def _mapping(given: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = given.get(name) or {}
    if not isinstance(found, dict):
        raise RestError(BAD_REQUEST, f'"{name}" must be an object')
    return found


def _properties(given: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = _mapping(given, name)
    if any(isinstance(each, dict | list) for each in found.values()):
        raise RestError(BAD_STATEMENT, f'the values in "{name}" must be texts, numbers or truth values')
    return found


async def _lines(request: Request) -> AsyncIterator[bytes]:
    """Yield the lines of a body that may still be sent."""
    rest = b""
    async for part in request.stream():
        rest += part
        *whole, rest = rest.split(b"\n")
        for line in whole:
            if line.strip():
                yield line
        if len(rest) > _LINE_BYTES_MAX:
            raise RestError(TOO_LARGE, f"a row has more than {_LINE_BYTES_MAX:,} bytes")
    if rest.strip():
        yield rest


async def _lots(lines: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    """Yield the rows that have arrived, as far as they come within a moment of each other."""
    pending: asyncio.Future[bytes] | None = None
    while True:
        pending = pending or asyncio.ensure_future(_next(lines))
        try:
            lot = [await pending]
        except StopAsyncIteration:
            return
        pending = None
        ended = False
        while len(lot) < _LOT_ROWS_MAX:
            pending = pending or asyncio.ensure_future(_next(lines))
            done, _ = await asyncio.wait([pending], timeout=_LOT_WAIT_S)
            if not done:
                break
            try:
                lot.append(pending.result())
            except StopAsyncIteration:
                ended = True
                break
            pending = None
        yield lot
        if ended:
            return


async def _next(lines: AsyncIterator[bytes]) -> bytes:
    return await anext(lines)
