"""A TCP connection of the simulation: the gateway's own Connection at one end, a client at the other.

Bytes arrive in the order of their sending, a little later. A cut loses what is on its way in both directions; what the
gateway has received by then it goes on with as it would after a real cut.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any

from odradek.gateway.connection import Connection
from odradek.model.log import Buffer

from tests.simulation.world import World

_LENGTH_BYTES = 4
_DELAY_S = 0.002


class Disconnected(Exception):
    """The connection ended before the answer came."""


class Wire(asyncio.Transport):
    """Both ends of a connection: the transport of the gateway's Connection, and the client's requests.

    Attributes:
        in_flight: requests without an answer.
    """

    def __init__(self, world: World, connection: Connection) -> None:
        super().__init__()
        self._world = world
        self._connection = connection
        self._pending: deque[asyncio.Future[bytes]] = deque()  # the protocol answers in order
        self._received = bytearray()
        self._to_server: asyncio.Queue[bytes] = asyncio.Queue()
        self._to_client: asyncio.Queue[bytes] = asyncio.Queue()
        self._may_read = asyncio.Event()
        self._may_read.set()
        self.is_closed = False
        connection.connection_made(self)
        self._pumps = [asyncio.ensure_future(self._carry_requests()), asyncio.ensure_future(self._carry_answers())]

    @property
    def in_flight(self) -> int:
        return len(self._pending)

    # --- the client's end ---------------------------------------------------------------------------------------------

    async def request(self, frame: bytes) -> bytes:
        """Send a request, return its answer. Raises Disconnected."""
        if self.is_closed:
            raise Disconnected
        pending: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._pending.append(pending)
        self._to_server.put_nowait(len(frame).to_bytes(_LENGTH_BYTES, "big") + frame)
        return await asyncio.shield(pending)

    def cut(self) -> None:
        """End the connection at once."""
        if self.is_closed:
            return
        self.is_closed = True
        for pump in self._pumps:
            pump.cancel()
        for pending in self._pending:
            if not pending.done():
                pending.set_exception(Disconnected())
                pending.exception()  # nobody may be waiting any more
        self._pending.clear()
        self._connection.connection_lost(None)

    # --- on the way ---------------------------------------------------------------------------------------------------

    async def _carry_requests(self) -> None:
        while True:
            data = memoryview(await self._to_server.get())
            await asyncio.sleep(self._world.rng.random() * _DELAY_S)
            while data:
                await self._may_read.wait()
                free = self._connection.get_buffer(-1)
                size = min(len(free), len(data))
                free[:size] = data[:size]
                data = data[size:]
                self._connection.buffer_updated(size)

    async def _carry_answers(self) -> None:
        while True:
            self._received += await self._to_client.get()
            while len(self._received) >= _LENGTH_BYTES:
                end = _LENGTH_BYTES + int.from_bytes(self._received[:_LENGTH_BYTES], "big")
                if len(self._received) < end:
                    break
                await asyncio.sleep(self._world.rng.random() * _DELAY_S)
                response = bytes(self._received[_LENGTH_BYTES:end])
                del self._received[:end]
                self._pending.popleft().set_result(response)

    # --- the gateway's end: asyncio.Transport -------------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        return None

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        self._may_read.clear()

    def resume_reading(self) -> None:
        self._may_read.set()

    def write(self, data: Buffer) -> None:
        self._to_client.put_nowait(bytes(data))

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        asyncio.get_running_loop().call_soon(self.cut)

    def abort(self) -> None:
        self.close()
