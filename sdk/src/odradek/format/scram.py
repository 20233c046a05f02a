"""SCRAM's keys and messages (RFC 5802, RFC 7677) on the server's side. Pure.

    client  n,,n=<user>,r=<client nonce>
    server  r=<client nonce><server nonce>,s=<salt>,i=<iterations>
    client  c=biws,r=<both nonces>,p=<proof>
    server  v=<server signature>

    salted password = PBKDF2(password, salt, iterations)
    client key = HMAC(salted, "Client Key")     stored key = H(client key)     server key = HMAC(salted, "Server Key")
    proof = client key XOR HMAC(stored key, the first three messages without their headers)

The server keeps the stored key and the server key. With them it can verify a proof, but not create one.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from dataclasses import dataclass

from odradek.errors import ErrorCode, FormatError
from odradek.model.user import SaslMechanism, ScramCredential

ITERATIONS_MIN = 4_096  # Kafka's
ITERATIONS_MAX = 16_384  # Kafka's
ITERATIONS = 8_192
SALT_BYTES = 16
_HASHES = {SaslMechanism.SCRAM_SHA_256: "sha256", SaslMechanism.SCRAM_SHA_512: "sha512"}


def salt_password(mechanism: SaslMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Return the salted password; slow by design."""
    return hashlib.pbkdf2_hmac(_HASHES[mechanism], password.encode(), salt, iterations)


def credential_of(mechanism: SaslMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Return the credential to store for a salted password."""
    client_key = _hmac(mechanism, salted, b"Client Key")
    return ScramCredential(salt, iterations, _hash(mechanism, client_key), _hmac(mechanism, salted, b"Server Key"))


def matches(mechanism: SaslMechanism, credential: ScramCredential, password: str) -> bool:
    """Return True if it is the password of this credential (SASL/PLAIN)."""
    salted = salt_password(mechanism, password, credential.salt, credential.iterations)
    client_key = _hmac(mechanism, salted, b"Client Key")
    return hmac.compare_digest(_hash(mechanism, client_key), credential.stored_key)


def parse_plain(token: bytes) -> tuple[str, str]:
    """Return user and password of a PLAIN token (RFC 4616). Raises FormatError."""
    try:
        authorization_id, user, password = bytes(token).decode().split("\0")
    except ValueError:
        raise FormatError(
            "a PLAIN token must be an authorization id, a user and a password, separated by zero bytes",
            ErrorCode.SASL_AUTHENTICATION_FAILED,
        ) from None
    if not user or not password or authorization_id not in ("", user):
        raise FormatError("a PLAIN token must name a user and a password", ErrorCode.SASL_AUTHENTICATION_FAILED)
    return user, password


@dataclass(frozen=True, slots=True)
class ClientFirst:
    """The client's first message."""

    user: str
    nonce: str
    header: str  # says whether the connection's TLS is part of the login; repeated in the last message
    bare: str  # without its header: part of what is signed


def parse_client_first(token: bytes) -> ClientFirst:
    """Parse the client's first message. Raises FormatError."""
    try:
        text = bytes(token).decode()
        binding, authorization_id, bare = text.split(",", 2)
        fields = dict(part.split("=", 1) for part in bare.split(","))
        user = fields["n"].replace("=2C", ",").replace("=3D", "=")
        nonce = fields["r"]
    except (ValueError, KeyError):
        raise _bad() from None
    if binding not in ("n", "y") or (authorization_id and authorization_id != f"a={fields['n']}"):
        raise _bad()
    if not user or not nonce:
        raise _bad()
    return ClientFirst(user, nonce, f"{binding},{authorization_id},", bare)


@dataclass(frozen=True, slots=True)
class Challenge:
    """The server's answer to the first message, and the values needed to check the second."""

    mechanism: SaslMechanism
    first: ClientFirst
    nonce: str
    credential: ScramCredential

    @property
    def message(self) -> str:
        salt = base64.b64encode(self.credential.salt).decode()
        return f"r={self.nonce},s={salt},i={self.credential.iterations}"


def challenge(
    mechanism: SaslMechanism, first: ClientFirst, credential: ScramCredential, server_nonce: bytes
) -> Challenge:
    """Answer the first message."""
    nonce = first.nonce + base64.b64encode(server_nonce).decode().replace(",", "")
    return Challenge(mechanism, first, nonce, credential)


def verify_client_final(challenge: Challenge, token: bytes) -> bytes:
    """Check the proof and return the server's last message. Raises FormatError(SASL_AUTHENTICATION_FAILED)."""
    try:
        text = bytes(token).decode()
        without_proof, proof_text = text.rsplit(",p=", 1)
        fields = dict(part.split("=", 1) for part in without_proof.split(","))
        proof = base64.b64decode(proof_text, validate=True)
        header = base64.b64decode(fields["c"], validate=True)
        nonce = fields["r"]
    except (ValueError, KeyError, binascii.Error):
        raise _bad() from None
    if nonce == challenge.first.nonce + challenge.nonce:
        raise FormatError(
            "the SCRAM nonce repeats the client's part: this is librdkafka before 2.6.1 (confluent-kafka, kcat), which "
            "Kafka 4 refuses too; upgrade it, or log in by PLAIN over TLS",
            ErrorCode.SASL_AUTHENTICATION_FAILED,
        )
    signed = f"{challenge.first.bare},{challenge.message},{without_proof}".encode()
    signature = _hmac(challenge.mechanism, challenge.credential.stored_key, signed)
    if nonce != challenge.nonce or header != challenge.first.header.encode() or len(proof) != len(signature):
        raise _bad()
    client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
    if not hmac.compare_digest(_hash(challenge.mechanism, client_key), challenge.credential.stored_key):
        raise FormatError("wrong user or password", ErrorCode.SASL_AUTHENTICATION_FAILED)
    return b"v=" + base64.b64encode(_hmac(challenge.mechanism, challenge.credential.server_key, signed))


def _hmac(mechanism: SaslMechanism, key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, _HASHES[mechanism])


def _hash(mechanism: SaslMechanism, data: bytes) -> bytes:
    return hashlib.new(_HASHES[mechanism], data).digest()


def _bad() -> FormatError:
    return FormatError("the SCRAM message is malformed", ErrorCode.SASL_AUTHENTICATION_FAILED)
