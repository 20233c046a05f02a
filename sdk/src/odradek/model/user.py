"""The stored form of a user who logs in with SASL; it does not reveal the password (RFC 5802)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class SaslMechanism(StrEnum):
    """The mechanisms with which a client may log in."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


SCRAM_MECHANISMS = (SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512)


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """The values that a server keeps of a password for one mechanism."""

    salt: bytes = field(repr=False)
    iterations: int
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class User:
    """A user with a credential for each mechanism."""

    name: str
    credentials: Mapping[SaslMechanism, ScramCredential]

    @property
    def principal(self) -> str:
        return f"User:{self.name}"
