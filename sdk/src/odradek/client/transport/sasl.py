"""SASL on the client's side: PLAIN (RFC 4616), SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677). Pure.

A login is a generator: it yields tokens to send and takes the server's answers.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Generator

from odradek.errors import ErrorCode, KafkaError
from odradek.format.scram import credential_of, salt_password
from odradek.model.user import SaslMechanism

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_ITERATIONS_MAX = 1_000_000  # a server that asks for more would keep the client busy
Login = Generator[bytes, bytes, None]


def login(mechanism: str, user: str, password: str, nonce: bytes) -> Login:
    """Return the login of a user.

    Args:
        mechanism: one of MECHANISMS.
        nonce: random bytes, of this login alone.

    Raises:
        KafkaError: SASL_AUTHENTICATION_FAILED if the server does not prove that it knows the password (SCRAM).
    """
    return _plain(user, password) if mechanism == "PLAIN" else _scram(SaslMechanism[_name(mechanism)], user, password,
                                                                      base64.b64encode(nonce).decode())  # fmt: skip


def _name(mechanism: str) -> str:
    return mechanism.replace("-", "_")


def _plain(user: str, password: str) -> Login:
    yield f"\0{user}\0{password}".encode()


def _scram(mechanism: SaslMechanism, user: str, password: str, nonce: str) -> Login:
    escaped = user.replace("=", "=3D").replace(",", "=2C")
    bare = f"n={escaped},r={nonce}"
    first = (yield f"n,,{bare}".encode()).decode("utf-8", "replace")
    fields = dict(part.split("=", 1) for part in first.split(",") if "=" in part)
    try:
        salt, iterations = base64.b64decode(fields["s"], validate=True), int(fields["i"])
        both = fields["r"]
    except (KeyError, ValueError, binascii.Error):
        raise _refused("the server's SCRAM message is malformed") from None
    if not both.startswith(nonce) or both == nonce or not 1 <= iterations <= _ITERATIONS_MAX:
        raise _refused("the server's SCRAM message does not answer ours")
    salted = salt_password(mechanism, password, salt, iterations)
    credential = credential_of(mechanism, salted, salt, iterations)
    name = "sha256" if mechanism is SaslMechanism.SCRAM_SHA_256 else "sha512"
    unsigned = f"c=biws,r={both}"
    signed = f"{bare},{first},{unsigned}".encode()
    client_key = hmac.digest(salted, b"Client Key", name)
    signature = hmac.digest(credential.stored_key, signed, name)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
    last = yield f"{unsigned},p={proof}".encode()
    expected = b"v=" + base64.b64encode(hmac.digest(credential.server_key, signed, name))
    if not hmac.compare_digest(last, expected):
        raise _refused("the server did not prove that it knows the password")


def _refused(text: str) -> KafkaError:
    return KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, text)
