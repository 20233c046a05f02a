"""Users of the Kafka port as kio messages: AlterUserScramCredentials 0, DescribeUserScramCredentials 0 (KIP-554)."""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from kio.schema.alter_user_scram_credentials.v0.request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kio.schema.alter_user_scram_credentials.v0.response import AlterUserScramCredentialsResponse
from kio.schema.describe_user_scram_credentials.v0.request import DescribeUserScramCredentialsRequest, UserName
from kio.schema.describe_user_scram_credentials.v0.response import DescribeUserScramCredentialsResponse
from kio.static.primitive import i8, i32

from odradek.errors import ErrorCode, KafkaError
from odradek.format.scram import ITERATIONS, SALT_BYTES, salt_password
from odradek.model.user import SaslMechanism

__all__ = [
    "AlterUserScramCredentialsResponse",
    "DescribeUserScramCredentialsResponse",
    "create_user_request",
    "delete_user_request",
    "describe_users_request",
]

_NUMBERS = {SaslMechanism.SCRAM_SHA_256: 1, SaslMechanism.SCRAM_SHA_512: 2}


def create_user_request(name: str, password: str) -> AlterUserScramCredentialsRequest:
    """Create both credentials of a user, with fresh salts. Raises KafkaError(UNACCEPTABLE_CREDENTIAL)."""
    if not name or not password:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "a user needs a name and a password")
    upsertions = []
    for mechanism, number in _NUMBERS.items():
        salt = secrets.token_bytes(SALT_BYTES)
        upsertions.append(
            ScramCredentialUpsertion(
                name=name,
                mechanism=i8(number),
                iterations=i32(ITERATIONS),
                salt=salt,
                salted_password=salt_password(mechanism, password, salt, ITERATIONS),
            )
        )
    return AlterUserScramCredentialsRequest(deletions=(), upsertions=tuple(upsertions))


def delete_user_request(name: str, mechanisms: Iterable[int]) -> AlterUserScramCredentialsRequest:
    """Delete all credentials of a user."""
    deletions = tuple(ScramCredentialDeletion(name=name, mechanism=i8(number)) for number in mechanisms)
    return AlterUserScramCredentialsRequest(deletions=deletions, upsertions=())


def describe_users_request(names: Iterable[str]) -> DescribeUserScramCredentialsRequest:
    """Describe these users, or all if no name is given."""
    return DescribeUserScramCredentialsRequest(users=tuple(UserName(name=name) for name in names))
