"""One client connection: request frames in, responses out, in the order of the requests.

As in Apache Kafka, the requests of a connection are served one after the other, with one exception: consecutive Produce
requests are in flight together, so that a pipelining producer does not wait for the store at each. They reach the
engine in the order of their arrival (dispatcher/arrival.py), and the engine keeps that order for the batches
(engine/append/order.py). Responses have the same order; those that are complete in the same turn of the loop, as of
requests that shared an upload, are one send.

Backpressure works both ways: reading pauses while `REQUESTS_MAX` requests are pending or the gateway's memory is used
up; the next request is not started while the client does not read its responses.

A connection ends, without affecting others, if the peer closes it or sends bytes that are not a frame or a request that
has no response in the protocol; if it is idle for longer than the idle timeout; if authentication fails; or if a login,
a frame or the reading of responses is too slow (`Pace`). One line in the log names the reason, without a stack trace.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from odradek.dispatcher import Arrival, BadFrame
from odradek.errors import FormatError, KafkaError
from odradek.gateway.frames import STAGING_BYTES, FrameReader
from odradek.model.log import Buffer
from odradek.protocol.api import ApiKey

logger = logging.getLogger(__name__)

REQUESTS_MAX = 64  # received and not yet answered; reading pauses at this number
PRODUCES_MAX = 16  # in flight together
WRITE_HIGH_BYTES = 1024 * 1024
_PRODUCE = int(ApiKey.PRODUCE).to_bytes(2, "big")


@dataclass(frozen=True, slots=True)
class Pace:
    """The least pace of a peer: it must finish within `grace_s`, or proceed by `bytes_per_s` meanwhile."""

    grace_s: float
    bytes_per_s: int


class _Progress:
    """The progress of one frame or response, measured in windows of the grace period."""

    def __init__(self) -> None:
        self._waited_s = 0.0
        self._at = 0  # bytes transferred when the window began

    def reset(self, done: int = 0) -> None:
        self._waited_s, self._at = 0.0, done

    def is_behind(self, passed_s: float, done: int, pace: Pace) -> bool:
        """Return True if the peer is too slow, `passed_s` after the previous call."""
        self._waited_s += passed_s
        if self._waited_s <= pace.grace_s:
            return False
        if done - self._at < pace.grace_s * pace.bytes_per_s:
            return True
        self.reset(done)
        return False


@dataclass(slots=True, eq=False)
class _Response:
    """The place of a response among those of a connection."""

    parts: list[Buffer] | None = None  # None: the request has no response
    is_complete: bool = False


class Session(Protocol):
    """Answers the frames of a connection and knows its principal (sasl.py)."""

    frame_bytes_max: int

    @property
    def is_open(self) -> bool:
        """True unless the client still has to log in."""
        ...

    async def answer(self, frame: Buffer, arrival: Arrival | None) -> list[Buffer] | None:
        """Return the response, or None if there is none. Raises BadFrame or KafkaError if the connection must end.

        Args:
            arrival: the place of a Produce request among those in flight.
        """
        ...


class Host(Protocol):
    """The interface of a gateway to its connections."""

    def opened(self, connection: Connection) -> Session | None:
        """Accept a connection and return its session; None refuses it."""
        ...

    def closed(self, connection: Connection) -> None: ...

    def reserve(self, connection: Connection, size: int, *, is_small: bool) -> bool:
        """Reserve memory; return False if there is none: `Connection.proceed` is then called later."""
        ...

    def completed(self, connection: Connection) -> None:
        """Note that a frame is complete."""
        ...

    def release(self, size: int) -> None:
        """Give back reserved memory."""
        ...

    def monotonic(self) -> float: ...

    def answered(self, frame: Buffer, began_s: float, answer_bytes: int) -> None:
        """Count a request that was answered."""
        ...


class Connection(asyncio.BufferedProtocol):
    """The asyncio protocol of one client connection."""

    def __init__(self, host: Host, number: int) -> None:
        self._host = host
        self.number = number
        self.peer = "?"
        self.address = "?"
        self.certificate: Mapping[str, Any] | None = None  # the peer's
        self.principal: str | None = None  # set once it has logged in
        self.active_s = host.monotonic()  # the last time that bytes were received or sent
        self.opened_s = self.active_s
        self.blocked_s: float | None = None  # since when it waits for memory of the gateway
        self._checked_s = self.active_s
        self._receiving = _Progress()  # of the incomplete frame
        self._sending = _Progress()  # of the responses that the peer has not read
        self._read_before = 0  # how much of them it had read at the last check
        self._is_unread = False
        self._held = 0  # bytes reserved and not released
        self._written = 0
        self._has_asked = False
        self._transport: asyncio.Transport | None = None
        self._session: Session | None = None
        self._reader = FrameReader(0, self._may_hold)
        self._frames: deque[Buffer] = deque()
        self._unanswered = 0
        self._wake: asyncio.Future[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._serving: asyncio.Task[None] | None = None
        self._produces: set[asyncio.Task[None]] = set()
        self._responses: deque[_Response] = deque()  # of the requests in flight, in their order
        self._sendable: list[Buffer] = []  # complete responses whose turn has come
        self._is_paused = False
        self._is_draining = False

    # --- asyncio's calls ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if isinstance(peer, tuple) else "local"
        self.peer = f"{self.address}:{peer[1]}" if isinstance(peer, tuple) else "local"
        self.certificate = transport.get_extra_info("peercert")
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)
        self._session = self._host.opened(self)
        if self._session is None:
            self._transport.abort()
            return
        self._reader.bytes_max = self._session.frame_bytes_max
        self._serving = asyncio.get_running_loop().create_task(self._serve())

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.free()

    def buffer_updated(self, nbytes: int) -> None:
        self.active_s = self._host.monotonic()
        self._take(self._reader.received(nbytes))

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, error: Exception | None) -> None:
        if self._session is None:
            return
        self._host.closed(self)
        held, self._held = self._held, 0  # a task that is cancelled before it began would never release its frame
        self._host.release(held)
        self._frames.clear()
        self._writable.set()
        for task in (self._serving, *self._produces):
            if task is not None and task is not asyncio.current_task():
                task.cancel()

    # --- reading -----------------------------------------------------------------------------------------------------

    def proceed(self) -> None:
        """Continue, since the gateway has memory again."""
        self.blocked_s = None
        if self._transport is not None and not self._transport.is_closing():
            self._take(self._reader.resume())

    def _may_hold(self, size: int) -> bool:
        if self._unanswered >= REQUESTS_MAX:
            return False  # received bytes are cut into frames once some requests are answered
        if self._host.reserve(self, size, is_small=self._reader.reserved_bytes == 0 and size <= STAGING_BYTES):
            self._held += size
            return True
        self.blocked_s = self._host.monotonic()
        return False

    def _take(self, frames: object) -> None:
        try:
            for frame in cast("Sequence[Buffer]", frames):
                self._frames.append(frame)
                self._has_asked = True
                self._unanswered += 1
                self._receiving.reset()
                self._host.completed(self)
        except FormatError as error:
            self._end(str(error))
            return
        if self._wake is not None and self._frames and not self._wake.done():
            self._wake.set_result(None)
        self._update_reading()

    def _update_reading(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._reader.blocked and self.blocked_s is None and self._unanswered < REQUESTS_MAX:
            self._take(self._reader.resume())
            return
        must_pause = self._unanswered >= REQUESTS_MAX or self._reader.blocked or self._is_draining
        if must_pause and not self._is_paused:
            transport.pause_reading()
        elif self._is_paused and not must_pause:
            transport.resume_reading()
        self._is_paused = must_pause

    def _release(self, size: int) -> None:
        """A frame is done with; all that a connection held is given back when it is lost."""
        if self._held:
            self._held -= size
            self._host.release(size)

    # --- serving -----------------------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        arrival: Arrival | None = None  # of the newest of the Produce requests in flight
        while True:
            if not self._frames:
                if self._is_draining and not self._produces:
                    break
                self._wake = asyncio.get_running_loop().create_future()
                await self._wake
                self._wake = None
                continue
            await self._writable.wait()
            frame = self._frames.popleft()
            if frame[:2] == _PRODUCE:
                if len(self._produces) >= PRODUCES_MAX:
                    await asyncio.wait(self._produces, return_when=asyncio.FIRST_COMPLETED)
                arrival = Arrival(arrival if self._produces else None)
                task = asyncio.get_running_loop().create_task(self._answer(frame, self._next_response(), arrival))
                self._produces.add(task)
                task.add_done_callback(self._produce_ended)
                continue
            while self._produces:
                await asyncio.wait(self._produces)
            await self._answer(frame, self._next_response())
        self._close()

    def _next_response(self) -> _Response:
        response = _Response()
        self._responses.append(response)
        return response

    def _produce_ended(self, task: asyncio.Task[None]) -> None:
        self._produces.discard(task)
        if self._is_draining and self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def _answer(self, frame: Buffer, response: _Response, arrival: Arrival | None = None) -> None:
        """Answer one request, after those before it."""
        assert self._session is not None
        size, began_s = len(frame), self._host.monotonic()
        try:
            response.parts = await self._session.answer(frame, arrival)
            self._host.answered(frame, began_s, sum(map(len, response.parts or ())))
        except (BadFrame, KafkaError) as refused:
            self._end(str(refused))
            return
        except Exception:
            logger.exception("connection %d from %s: a request failed", self.number, self.peer)
            self._close()
            return
        finally:
            if arrival is not None:
                arrival.enter()
            self._release(size)
            self._unanswered -= 1
            self._reader.bytes_max = self._session.frame_bytes_max
        response.is_complete = True
        self._respond()
        self._update_reading()

    def _respond(self) -> None:
        """Send the complete responses whose turn has come."""
        has_waited = bool(self._sendable)
        while self._responses and self._responses[0].is_complete:
            parts = self._responses.popleft().parts
            if parts is not None:
                self._sendable.append(sum(map(len, parts)).to_bytes(4, "big"))
                self._sendable += parts
        if not self._sendable or has_waited:
            return
        if self._responses:  # others may be complete in this turn of the loop
            asyncio.get_running_loop().call_soon(self._send)
        else:
            self._send()

    def _send(self) -> None:
        transport, parts = self._transport, self._sendable
        self._sendable = []
        if transport is None or transport.is_closing() or not parts:
            return
        self.active_s = self._host.monotonic()
        self._written += sum(map(len, parts))
        # In one send: where a response's head and bytes were sent one after the other, a reader on the same machine
        # acknowledged the first only after its 40 ms. (Before Python 3.12 this copies, 0.1 ms a megabyte.)
        transport.writelines(parts)

    # --- the end -----------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Stop reading, answer the received requests, then close."""
        self._is_draining = True
        self._update_reading()
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def is_busy(self) -> bool:
        """True while a request is being served."""
        return self._unanswered > 0

    @property
    def held_bytes(self) -> int:
        """Memory of the incomplete frame; 0 if the connection is ending."""
        is_ending = self._transport is None or self._transport.is_closing()
        return 0 if is_ending else self._reader.reserved_bytes

    @property
    def unsent_bytes(self) -> int:
        """Bytes of responses that are buffered here because the peer has not read them."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    @property
    def is_unread(self) -> bool:
        """True if responses wait and the peer read nothing of them between the last two checks."""
        return self._is_unread

    def check(self, now_s: float, pace: Pace) -> str | None:
        """Return the reason why the connection must end, if any; called periodically."""
        passed_s, self._checked_s = now_s - self._checked_s, now_s
        if self._transport is None or self._transport.is_closing():
            return None
        if self._session is not None and now_s - self.opened_s > pace.grace_s:
            if not self._session.is_open:
                return "the login timed out"
            if not self._has_asked and self._reader.partial_bytes == 0:
                return "no request was sent in time"
        partial = self._reader.partial_bytes
        if partial == 0:
            self._receiving.reset()
        elif not self._is_paused and self._receiving.is_behind(passed_s, partial, pace):
            return "a request is sent too slowly"
        unsent = self.unsent_bytes
        read = self._written - unsent
        self._is_unread = unsent > 0 and read == self._read_before
        self._read_before = read
        if unsent == 0:
            self._sending.reset(read)
        elif self._sending.is_behind(passed_s, read, pace):
            return "responses are read too slowly"
        return None

    def abort(self, reason: str | None = None) -> None:
        """Close at once."""
        if reason:
            self._log(reason)
        if self._transport is not None:
            self._transport.abort()

    def _end(self, reason: str) -> None:
        self._log(reason)
        self._close()

    def _log(self, reason: str) -> None:
        logger.warning("connection %d from %s ended: %s", self.number, self.peer, reason)

    def _close(self) -> None:
        self._send()
        if self._transport is not None:
            self._transport.close()
