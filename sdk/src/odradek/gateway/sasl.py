"""Authentication of a connection by SASL, and the requests that it may send in each state.

    open, SASL off                                         every API, as User:ANONYMOUS
    handshake     ApiVersions, SaslHandshake ──> token     ApiVersions, SaslAuthenticate (PLAIN 1, SCRAM 2 exchanges)
                      ^                                                       │
                      └───────────── again, to re-authenticate ── open, as User:<name>

After SaslHandshake 0 the tokens are bare: frames without a header and without error codes, so a failed login only ends
the connection. librdkafka up to 2.10 takes a broker without version 0 for one without SASL (but sends 1), and
ruby-kafka and sarama's version 0 use it.

Any other request before a login ends the connection, as in Kafka. A failed login is answered after a delay, and then
the connection ends. If `connections_max_reauth_ms` is set, the response has the session's lifetime (KIP-368); the first
request after it that is not part of a login ends the connection. PLAIN sends the password, so it is offered only over
TLS, unless the listener allows it without. An unknown user name gets a challenge like any other, the same in every
process, so that a client cannot find out which users exist.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from odradek.dispatcher import Arrival, BadFrame, Dispatcher, RequestContext
from odradek.dispatcher.answer import build
from odradek.engine.access.users import Users
from odradek.errors import ErrorCode, FormatError, KafkaError, StoreError
from odradek.format.scram import (
    ITERATIONS,
    SALT_BYTES,
    Challenge,
    challenge,
    matches,
    parse_client_first,
    parse_plain,
    verify_client_final,
)
from odradek.limits import TCP_FRAME_BYTES_MAX
from odradek.model.log import Buffer
from odradek.model.user import SCRAM_MECHANISMS, SaslMechanism, ScramCredential
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng
from odradek.protocol.api import ApiKey
from odradek.protocol.frame import decode_request, encode_response, parse_request_header, response_schema

logger = logging.getLogger(__name__)

LOGIN_FRAME_BYTES_MAX = 512 * 1024  # before a login; Kafka's sasl.server.max.receive.size
_FAILED_DELAY_S = 0.1  # Kafka's connection.failed.authentication.delay.ms
_NONCE_BYTES = 18
_FAILED = "user or password is wrong"


class OpenSession:
    """The session of a connection that need not log in."""

    frame_bytes_max = TCP_FRAME_BYTES_MAX
    is_open = True

    def __init__(self, dispatcher: Dispatcher, context: RequestContext) -> None:
        self._dispatcher = dispatcher
        self._context = context

    async def answer(self, frame: Buffer, arrival: Arrival | None = None) -> list[Buffer] | None:
        """See connection.Session."""
        return await self._dispatcher.dispatch(frame, self._context, arrival)


class SaslSession:
    """The session of a connection that must log in before it is served.

    Args:
        users: the users that may log in.
        mechanisms: the SASL mechanisms that are offered.
        max_reauth_ms: the lifetime of a login; 0: that of the connection.
        admit: returns True if a principal may have one more connection.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        context: RequestContext,
        users: Users,
        clock: Clock,
        rng: Rng,
        mechanisms: Sequence[SaslMechanism] = tuple(SaslMechanism),
        max_reauth_ms: int = 0,
        admit: Callable[[str], bool] = lambda principal: True,
    ) -> None:
        self.frame_bytes_max = LOGIN_FRAME_BYTES_MAX
        self._dispatcher = dispatcher
        self._context = context
        self._users = users
        self._clock = clock
        self._rng = rng
        self._mechanisms = [each.value for each in mechanisms]
        self._max_reauth_ms = max_reauth_ms
        self._expires_s: float | None = None
        self.is_open = False
        self._admit = admit
        self._mechanism: SaslMechanism | None = None
        self._challenge: Challenge | None = None
        self._is_bare = False  # the next frame is a token of a login that began with SaslHandshake 0
        self._has_failed = False

    async def answer(self, frame: Buffer, arrival: Arrival | None = None) -> list[Buffer] | None:
        """See connection.Session."""
        if self._has_failed:
            raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, "the login failed")
        if self._is_bare:
            return [await self._exchange(bytes(frame))]
        key = int.from_bytes(frame[:2], "big") if len(frame) >= 2 else -1
        if key not in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
            if self.is_open and self._expires_s is not None and self._clock.monotonic() > self._expires_s:
                raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, "the login has expired: log in again")
            if self.is_open or key == ApiKey.API_VERSIONS:
                return await self._dispatcher.dispatch(frame, self._context, arrival)
            raise KafkaError(
                ErrorCode.ILLEGAL_SASL_STATE, "the client must log in first: set security.protocol to SASL_*"
            )
        try:
            header = parse_request_header(frame)
            request = decode_request(frame, header)
        except FormatError as error:
            raise BadFrame(400, error.code, str(error)) from None
        if key == ApiKey.SASL_HANDSHAKE:
            fields = self._handshake(request.message.mechanism)
            self._is_bare = request.api_version == 0 and self._mechanism is not None
        else:
            fields = await self._authenticate(bytes(request.message.auth_bytes))
        schema = response_schema(request.api_key, request.api_version)
        return encode_response(build(schema, fields), correlation_id=request.correlation_id)

    def _handshake(self, mechanism: str) -> Mapping[str, Any]:
        self._challenge = None
        if mechanism not in self._mechanisms:
            self._mechanism = None
            return {"error_code": ErrorCode.UNSUPPORTED_SASL_MECHANISM, "mechanisms": self._mechanisms}
        self._mechanism = SaslMechanism(mechanism)
        return {"mechanisms": self._mechanisms}

    async def _authenticate(self, token: bytes) -> Mapping[str, Any]:
        if self._mechanism is None:
            self._has_failed = True
            return {"error_code": ErrorCode.ILLEGAL_SASL_STATE, "error_message": "SaslHandshake must be sent first"}
        try:
            answer = await self._exchange(token)
        except KafkaError as error:
            return {"error_code": error.code, "error_message": error.message}
        lasts_ms = self._max_reauth_ms if self._mechanism is None else 0  # None: it is complete
        return {"auth_bytes": answer, "session_lifetime": lasts_ms}

    async def _exchange(self, token: bytes) -> bytes:
        """Return the answer to a token. After a failure the connection accepts nothing more.

        Raises:
            KafkaError: SASL_AUTHENTICATION_FAILED, after a delay; COORDINATOR_NOT_AVAILABLE if users cannot be read.
        """
        mechanism = self._mechanism
        assert mechanism is not None
        try:
            return await (self._plain(token) if mechanism is SaslMechanism.PLAIN else self._scram(token))
        except (FormatError, KafkaError) as error:
            self._has_failed = True
            message = error.message if isinstance(error, KafkaError) else str(error)
            logger.warning("a %s login from %s failed: %s", mechanism.value, self._context.client_host, message)
            await self._clock.sleep(_FAILED_DELAY_S)
            raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, message) from None
        except StoreError:
            self._has_failed = True  # the client reconnects
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "users cannot be read now") from None

    def _log_in(self, name: str) -> None:
        principal = f"User:{name}"
        if self.is_open and principal != self._context.principal:
            raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, "a connection cannot change its user")
        if not self._admit(principal):
            raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, f"{principal} has too many connections")
        self.is_open = True
        if self._max_reauth_ms:
            self._expires_s = self._clock.monotonic() + self._max_reauth_ms / 1000
        self._mechanism = None
        self._challenge = None
        self._is_bare = False
        self.frame_bytes_max = TCP_FRAME_BYTES_MAX
        self._context = replace(self._context, principal=principal)

    async def _plain(self, token: bytes) -> bytes:
        name, password = parse_plain(token)
        user = await self._users.get(name)
        credentials = {} if user is None else user.credentials
        mechanism = next((each for each in SCRAM_MECHANISMS if each in credentials), SCRAM_MECHANISMS[0])
        credential = credentials.get(mechanism) or await self._invented(name)
        is_right = await asyncio.to_thread(matches, mechanism, credential, password)  # slow on purpose
        if user is None or not is_right:
            raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, _FAILED)
        self._log_in(name)
        return b""

    async def _scram(self, token: bytes) -> bytes:
        assert self._mechanism is not None
        if self._challenge is None:
            first = parse_client_first(token)
            user = await self._users.get(first.user)
            credential = (user.credentials if user else {}).get(self._mechanism)
            if credential is None:
                credential = await self._invented(first.user)
            self._challenge = challenge(self._mechanism, first, credential, self._rng.random_bytes(_NONCE_BYTES))
            return self._challenge.message.encode()
        answer = verify_client_final(self._challenge, token)
        self._log_in(self._challenge.first.user)
        return answer

    async def _invented(self, name: str) -> ScramCredential:
        """Return a credential for the challenge to an unknown user; no password matches it."""
        secret = await self._users.secret()
        assert self._mechanism is not None
        salt = hmac.digest(secret, f"{self._mechanism.value} {name}".encode(), "sha256")[:SALT_BYTES]
        return ScramCredential(salt, ITERATIONS, hashlib.sha256(secret + salt).digest(), b"")
