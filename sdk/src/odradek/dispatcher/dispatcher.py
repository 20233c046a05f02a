"""One dispatcher for every transport: frame in, frame out.

    header   malformed -> BadFrame 400     unknown API -> BadFrame 404     another function's -> BadFrame 421
    version  unsupported -> BadFrame 400, but ApiVersions is answered in version 0 (KIP-511)
    body     malformed or trailing bytes -> BadFrame 400
    rights   one is missing for the request as a whole (authorization.py) -> the API's response with the error code
    handler  KafkaError -> its code in the API's response; the store's errors -> codes of the API (store_errors.py);
             any other error -> logged, and UNKNOWN_SERVER_ERROR

A caller meets only BadFrame. Nothing is kept between requests.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from odradek.dispatcher.access import Access
from odradek.dispatcher.answer import build
from odradek.dispatcher.arrival import Arrival
from odradek.dispatcher.audit_log import audit
from odradek.dispatcher.authorization import FREE, require
from odradek.dispatcher.cluster.api_versions import unsupported_api_versions
from odradek.dispatcher.context import Answer, Append, BadFrame, Call, RequestContext
from odradek.dispatcher.handlers import HANDLERS, Handler
from odradek.dispatcher.records.idle_polls import IdlePolls
from odradek.dispatcher.store_errors import translated
from odradek.engine.access.busy_time import BusyTime
from odradek.engine.access.decisions import NOTHING, AclSet
from odradek.errors import ErrorCode, FormatError, KafkaError, UnknownVersion
from odradek.model.cluster import Cluster
from odradek.model.log import Buffer
from odradek.protocol.api import TCP_ONLY, ApiKey, owner_of
from odradek.protocol.frame import (
    Request,
    RequestHeader,
    decode_request,
    encode_response,
    parse_request_header,
    response_schema,
)
from odradek.protocol.versions import SUPPORTED_VERSIONS, is_supported

if TYPE_CHECKING:
    from odradek.engine.engine import Engine

logger = logging.getLogger(__name__)

_FETCH = int(ApiKey.FETCH).to_bytes(2, "big")
_NOTHING_ALLOWED = AclSet(everyone=NOTHING)  # until the rules have been read
_UNEXPECTED = "unexpected error in the server, see its log; the request may have been applied"


class Dispatcher:
    """Answers Kafka frames from an engine.

    Args:
        engine: the log, the catalog and the groups.
        cluster: the brokers as clients see them from this address.
        takes_uploads: True if clients share the object store and may commit what they put there.
        append: appends batches outside transactions; None: the engine does.
    """

    def __init__(
        self, engine: Engine, cluster: Cluster, *, takes_uploads: bool = False, append: Append | None = None
    ) -> None:
        self._engine = engine
        self._append = append or engine.produce
        self._cluster = cluster
        self._takes_uploads = takes_uploads
        self._idle_polls = IdlePolls(engine)

    async def dispatch(
        self, frame: Buffer, context: RequestContext, arrival: Arrival | None = None
    ) -> list[Buffer] | None:
        """Answer one request frame (without its length prefix).

        Args:
            arrival: its position among concurrent requests of one connection.

        Returns:
            The response frame in parts, or None if the protocol has no response (Produce with acks=0).

        Raises:
            BadFrame: the frame cannot be answered in the protocol; nothing was done. Or a batch of a Produce with
                acks=0 was refused over TCP.
        """
        now_s = self._engine.clock.monotonic()
        if frame[:2] == _FETCH and (idle := await self._idle_polls.answer(frame, context, now_s)) is not None:
            return idle
        header = _header(frame)
        api_key = _check_api(header, context)
        if not is_supported(api_key, header.api_version):
            if api_key is ApiKey.API_VERSIONS:
                return unsupported_api_versions(context.allowed, header.correlation_id)
            low, high = SUPPORTED_VERSIONS[api_key]
            raise BadFrame(
                400,
                ErrorCode.UNSUPPORTED_VERSION,
                f"{api_key.name} supports versions {low} to {high}, not {header.api_version}",
            )
        is_free = api_key in FREE  # asked before a login
        busy = None if is_free else await self._engine.quotas.busy_time(context.principal, header.client_id)
        began_s = 0.0 if busy is None else busy.now_s()
        request = _request(frame, header)
        if busy is not None:
            busy.add(began_s)
        unasked = _rights(_NOTHING_ALLOWED, context.principal, context.client_host)
        call = Call(
            request,
            context,
            self._engine,
            self._append,
            self._cluster,
            unasked,
            self._takes_uploads,
            arrival,
            frame,
            self._idle_polls,
            began_s=now_s,
        )
        return await _answer(call, busy)


@lru_cache(maxsize=1024)  # a set of rules stays the same until they change, and callers ask again and again
def _rights(acls: AclSet, principal: str, host: str) -> Access:
    """The rights of a caller."""
    return Access(acls, principal, host)


def _header(frame: Buffer) -> RequestHeader:
    try:
        return parse_request_header(frame)
    except FormatError as error:
        raise BadFrame(400, error.code, f"malformed request header: {error}") from None


def _check_api(header: RequestHeader, context: RequestContext) -> ApiKey:
    try:
        api_key = ApiKey(header.api_key)
        HANDLERS[api_key]
    except (ValueError, KeyError):
        raise BadFrame(404, ErrorCode.UNSUPPORTED_VERSION, f"API key {header.api_key} is not served here") from None
    if api_key is not ApiKey.API_VERSIONS and api_key not in context.allowed:
        place = "the Kafka port" if api_key in TCP_ONLY else f"the function {owner_of(api_key).value!r}"
        raise BadFrame(421, ErrorCode.INVALID_REQUEST, f"{api_key.name} belongs to {place}")
    return api_key


def _request(frame: Buffer, header: RequestHeader) -> Request:
    try:
        return decode_request(frame, header)
    except FormatError as error:
        name = ApiKey(header.api_key).name
        raise BadFrame(400, error.code, f"malformed {name} request, version {header.api_version}: {error}") from None


async def _answer(call: Call, busy: BusyTime | None) -> list[Buffer] | None:
    handler = HANDLERS[call.request.api_key]
    answer: Answer
    try:
        with translated(call):
            if call.request.api_key not in FREE:
                call.access = _rights(
                    await call.engine.acls.current(), call.context.principal, call.context.client_host
                )
                require(call)
            answer = await _handled(call, handler, busy)
        audit(call, answer)
        return _encode(call, answer)
    except BadFrame:
        raise
    except KafkaError as error:
        code, message = error.code, error.message
    except UnknownVersion as newer:
        code, message = newer.code, str(newer)
    except Exception:
        logger.exception("%s version %d failed", call.request.api_key.name, call.api_version)
        code, message = ErrorCode.UNKNOWN_SERVER_ERROR, _UNEXPECTED
    answer = handler.refuse(call, code, message)
    audit(call, answer)
    return _encode(call, answer)


async def _handled(call: Call, handler: Handler, busy: BusyTime | None) -> Answer:
    """Let the handler answer; if a quota asks for it, charge the time that it takes."""
    if busy is None:
        return await handler.handle(call)
    pause_ms = 0
    try:
        answer = await busy.of(handler.handle(call))
    finally:
        pause_ms = await call.engine.quotas.busy(call.context.principal, call.request.client_id, busy.seconds)
    if isinstance(answer, Mapping) and pause_ms > answer.get("throttle_time", 0):
        return {**answer, "throttle_time": pause_ms}
    return answer


def _encode(call: Call, answer: Answer) -> list[Buffer] | None:
    if answer is None or isinstance(answer, list):
        return answer
    request = call.request
    message = build(response_schema(request.api_key, request.api_version), answer)
    return encode_response(message, correlation_id=request.correlation_id)
