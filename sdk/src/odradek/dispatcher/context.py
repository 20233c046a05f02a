"""The context of a request: facts from the transport, arguments of a handler, and the error for an unusable frame."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from odradek.dispatcher.access import Access
from odradek.dispatcher.arrival import Arrival
from odradek.errors import ErrorCode, OdradekError
from odradek.model.cluster import Cluster
from odradek.model.log import Buffer, ProducePartition, ProduceResult
from odradek.protocol.api import ApiKey
from odradek.protocol.frame import Request

if TYPE_CHECKING:
    from odradek.dispatcher.records.idle_polls import IdlePolls
    from odradek.engine.engine import Engine

Append = Callable[[Sequence[ProducePartition]], Awaitable[Sequence[ProduceResult]]]
"""Appends batches outside transactions: `Engine.produce`, or a gateway's group commit in front of it."""

Answer = Mapping[str, Any] | list[Buffer] | None
"""A response as fields (see answer.py), as an encoded frame, or no response at all (Produce with acks=0)."""


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Facts about a request that the transport knows."""

    principal: str  # the authenticated caller
    client_host: str
    transport: Literal["https", "tcp"]
    allowed: frozenset[ApiKey]  # the APIs that this function or gateway owns; ApiVersions is always answered
    max_response_bytes: int  # the largest response that the transport can carry
    connection: int | None = None  # id of the connection, over which requests arrive in the order of sending


@dataclass(slots=True)
class Call:
    """A decoded request with everything that a handler needs. Its access is known once the rights have been read."""

    request: Request
    context: RequestContext
    engine: Engine
    append: Append
    cluster: Cluster
    access: Access
    takes_uploads: bool = False  # True: clients may commit what they stored in the object store themselves
    arrival: Arrival | None = None  # its position among concurrent requests of its connection
    frame: Buffer | None = None  # that the request came in
    idle_polls: IdlePolls | None = None
    began_s: float = 0.0  # when its frame was given to the dispatcher, by the engine's monotonic clock

    @property
    def message(self) -> Any:
        return self.request.message

    @property
    def api_version(self) -> int:
        return self.request.api_version


class BadFrame(OdradekError):
    """A frame that has no response in the protocol: over HTTPS it becomes a status, over TCP it ends the connection.

    Attributes:
        http_status: 400 malformed or of an unsupported version, 404 an API that Odradek does not serve, 421 an API
            that another function owns.
        code: the closest Kafka error code.
        message: one sentence for people.
    """

    def __init__(self, http_status: int, code: ErrorCode, message: str) -> None:
        super().__init__(http_status, code, message)
        self.http_status = http_status
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"
