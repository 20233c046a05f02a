"""Long polls of consumers that wait: the same request again, with another correlation id, and the same empty response.

Such a request is told by its bytes, and answered with the bytes of the response before, after the wait that it asks
for. Nothing of it is decoded. It goes the usual way where anything could be different: other rights, a quota, a head
that has been written (engine/read/quiet.py).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odradek.dispatcher.answer import to_ms
from odradek.dispatcher.context import Call, RequestContext
from odradek.engine.access.decisions import AclSet
from odradek.errors import KafkaError
from odradek.model.log import Buffer, FetchPartition, FetchResult

if TYPE_CHECKING:
    from odradek.engine.engine import Engine
    from odradek.engine.read.quiet import Quiet

_BYTES_MAX = 16 * 1024 * 1024  # of all frames and responses
_REQUEST_BYTES_MAX = 16 * 1024  # of some hundred partitions; larger ones take more than their decoding
_CORRELATION_ID = slice(4, 8)


@dataclass(frozen=True, slots=True)
class IdlePoll:
    """A fetch that found nothing.

    Attributes:
        start, rest: of its frame, before and after the correlation id.
        response: after the correlation id.
    """

    start: bytes
    rest: bytes
    principal: str
    acls: AclSet
    wait_s: float
    quiet: Quiet
    response: bytes

    @property
    def size_bytes(self) -> int:
        return len(self.rest) + len(self.response)


class IdlePolls:
    """The last fetch of each connection, if it found nothing."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._polls: OrderedDict[int, IdlePoll] = OrderedDict()
        self._bytes = 0

    async def answer(self, frame: Buffer, context: RequestContext, began_s: float) -> list[Buffer] | None:
        """Wait as a fetch does that finds nothing; return the response, or None: it must go the usual way."""
        poll = None if context.connection is None else self._polls.get(context.connection)
        if poll is None:
            return None
        is_repeated = frame[: _CORRELATION_ID.start] == poll.start and frame[_CORRELATION_ID.stop :] == poll.rest
        if is_repeated and poll.principal == context.principal and await self._waits(poll, began_s):
            return [bytes(frame[_CORRELATION_ID]) + poll.response]
        assert context.connection is not None
        self._forget(context.connection)
        return None

    async def _waits(self, poll: IdlePoll, began_s: float) -> bool:
        """Wait for as long as the poll asks; return False if its response may be another one."""
        engine = self._engine
        try:
            if await engine.acls.current() is not poll.acls or not await engine.quotas.limit_nobody():
                return False
        except KafkaError:
            return False
        return await engine.quiet_fetches.lasts(poll.quiet, began_s + poll.wait_s)

    async def note(
        self,
        call: Call,
        partitions: Sequence[FetchPartition],
        results: Sequence[FetchResult],
        response: Sequence[Buffer],
    ) -> None:
        """Remember a fetch that found nothing and was answered without a pause."""
        frame, connection = call.frame, call.context.connection
        if connection is None or frame is None or len(frame) > _REQUEST_BYTES_MAX or len(response) != 1:
            return
        quiet = await self._engine.quiet_fetches.of(partitions, results)
        if quiet is None or not await self._engine.quotas.limit_nobody():
            return
        self._forget(connection)
        poll = IdlePoll(
            bytes(frame[: _CORRELATION_ID.start]),
            bytes(frame[_CORRELATION_ID.stop :]),
            call.context.principal,
            call.access.acls,
            max(0, min(to_ms(call.message.max_wait), self._engine.settings.request_timeout_ms)) / 1000,
            quiet,
            bytes(response[0][4:]),
        )
        self._polls[connection] = poll
        self._bytes += poll.size_bytes
        while self._bytes > _BYTES_MAX:
            self._forget(next(iter(self._polls)))

    def _forget(self, connection: int) -> None:
        poll = self._polls.pop(connection, None)
        if poll is not None:
            self._bytes -= poll.size_bytes
