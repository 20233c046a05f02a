"""One connection to a broker of a Kafka port: TCP or TLS, a login, frames one after the other.

    size i32 | frame          in both directions; the answer of a request comes before the next request is sent

A connection that failed, or whose request was given up, is closed: the next request opens another.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_authenticate.v2.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse

from odradek.client.transport.base import RequestFailed
from odradek.client.transport.sasl import login
from odradek.errors import ErrorCode, FormatError, KafkaError
from odradek.protocol.frame import decode_response, encode_request
from odradek.system import SystemRng

R = TypeVar("R")

_SIZE = struct.Struct(">i")
_FRAME_BYTES_MAX = 128 * 1024 * 1024  # more is not an answer of Kafka's


@dataclass(frozen=True, slots=True)
class Security:
    """How to reach brokers and log in.

    Attributes:
        mechanism: of SASL; "" does not log in.
        ca_file: PEM file of the authorities; None takes the system's.
    """

    tls: bool = False
    mechanism: str = ""
    user: str = ""
    password: str = ""
    ca_file: str | None = None
    checks_host: bool = True

    def context(self) -> ssl.SSLContext | None:
        """Return the TLS context, None without TLS. Raises KafkaError(INVALID_CONFIG)."""
        if not self.tls:
            return None
        try:
            ssl_context = ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"ssl_ca_location {self.ca_file}: {error}") from None
        ssl_context.check_hostname = self.checks_host
        return ssl_context


class Link:
    """A connection, opened at the first request."""

    def __init__(self, host: str, port: int, security: Security, client_id: str | None) -> None:
        self.address = f"{host}:{port}"
        self._host, self._port = host, port
        self._security = security
        self._client_id = client_id
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._turn = asyncio.Lock()
        self._number = 0

    async def call(self, message: Any, response_type: type[R], timeout_s: float) -> R:
        """Send a request and return its answer. Raises RequestFailed."""
        sent = False
        try:
            async with asyncio.timeout(timeout_s), self._turn:
                if self._streams is None:
                    await self._open()
                sent = True
                return await self._exchange(message, response_type)
        except TimeoutError:
            raise RequestFailed(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{self.address} did not answer within {timeout_s * 1000:.0f} ms",
                may_have_applied=sent,
            ) from None
        except (OSError, EOFError) as error:
            self._drop()
            code = ErrorCode.NETWORK_EXCEPTION if sent else ErrorCode.BROKER_NOT_AVAILABLE
            template = "the connection to {} broke: {}" if sent else "cannot connect to {}: {}"
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise RequestFailed(
                code, template.format(self.address, reason), may_have_applied=sent, retryable=True
            ) from None
        except FormatError as error:
            self._drop()
            raise RequestFailed(
                ErrorCode.NETWORK_EXCEPTION, f"{self.address} does not speak Kafka: {error}", may_have_applied=sent
            ) from None

    async def _open(self) -> None:
        context = self._security.context()
        self._streams = await asyncio.open_connection(self._host, self._port, ssl=context)
        try:
            if self._security.mechanism:
                await self._log_in()
        except BaseException:
            self._drop()
            raise

    async def _log_in(self) -> None:
        security = self._security
        response = await self._exchange(SaslHandshakeRequest(mechanism=security.mechanism), SaslHandshakeResponse)
        if int(response.error_code):
            offered = ", ".join(response.mechanisms) or "none"
            raise _login_failed(f"{self.address} does not offer {security.mechanism}, but {offered}")
        steps = login(security.mechanism, security.user, security.password, SystemRng().random_bytes(24))
        token = next(steps)
        while True:
            authenticated = await self._exchange(SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse)
            if int(authenticated.error_code):
                raise _login_failed(f"{self.address}: {authenticated.error_message or 'wrong user or password'}")
            try:
                token = steps.send(bytes(authenticated.auth_bytes))
            except StopIteration:
                return

    async def _exchange(self, message: Any, response_type: type[R]) -> R:
        assert self._streams is not None
        reader, writer = self._streams
        self._number += 1
        frame = encode_request(message, correlation_id=self._number, client_id=self._client_id)
        is_whole = False
        try:
            writer.write(_SIZE.pack(len(frame)) + frame)
            await writer.drain()
            (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
            if not 0 <= size <= _FRAME_BYTES_MAX:
                raise FormatError(f"an answer of {size} bytes")
            response = await reader.readexactly(size)
            is_whole = True
        finally:
            if not is_whole:
                self._drop()  # what comes next would be taken for the answer of another request
        return decode_response(response, response_type, correlation_id=self._number)

    def _drop(self) -> None:
        if self._streams is not None:
            _, writer = self._streams
            self._streams = None
            writer.close()

    async def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            _, writer = self._streams
            self._streams = None
            writer.close()
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(1):
                    await writer.wait_closed()


def _login_failed(text: str) -> RequestFailed:
    return RequestFailed(ErrorCode.SASL_AUTHENTICATION_FAILED, text, may_have_applied=False, retryable=False)
