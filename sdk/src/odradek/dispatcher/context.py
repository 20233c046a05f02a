"""What a transport says about a request, what a handler is given, and what is refused before a handler exists."""

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
    from odradek.engine.engine import Engine

Append = Callable[[Sequence[ProducePartition]], Awaitable[Sequence[ProduceResult]]]
"""Appends what is part of no transaction: `Engine.produce`, or a gateway's group commit before it."""

Answer = Mapping[str, Any] | list[Buffer] | None
"""A response as fields (see answer.py), as an encoded frame, or no answer at all (Produce with acks=0)."""


@dataclass(frozen=True, slots=True)
class RequestContext:
    """What the transport knows of a request beside its frame."""

    principal: str  # who signed it
    client_host: str
    transport: Literal["https", "tcp"]
    allowed: frozenset[ApiKey]  # the APIs that this function or gateway owns; ApiVersions is always answered
    max_response_bytes: int  # what the transport can carry back
    connection: int | None = None  # over which it came, where requests arrive in the order in which they were sent


@dataclass(frozen=True, slots=True)
class Call:
    """A decoded request with all that a handler needs."""

    request: Request
    context: RequestContext
    engine: Engine
    append: Append
    cluster: Cluster
    access: Access
    takes_uploads: bool = False  # whether clients may commit what they stored in the object store themselves
    arrival: Arrival | None = None  # its place among the requests of its connection that are served side by side

    @property
    def message(self) -> Any:
        return self.request.message

    @property
    def api_version(self) -> int:
        return self.request.api_version


class BadFrame(OdradekError):
    """A frame that has no answer in the protocol: over HTTPS a status, over TCP the end of the connection.

    Attributes:
        http_status: 400 malformed or of an unsupported version, 404 an API that nobody serves, 421 an API that
            another function owns.
        code: the Kafka error code nearest to it.
        message: one sentence for people.
    """

    def __init__(self, http_status: int, code: ErrorCode, message: str) -> None:
        super().__init__(http_status, code, message)
        self.http_status = http_status
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"
