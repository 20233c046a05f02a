"""AlterUserScramCredentials, DescribeUserScramCredentials (KIP-554): the users of the Kafka port.

The rights that they require are in dispatcher/authorization.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from odradek.dispatcher.context import Answer, Call
from odradek.dispatcher.store_errors import translated
from odradek.errors import ErrorCode, KafkaError
from odradek.format.scram import credential_of
from odradek.model.user import SaslMechanism, User

# Kafka's ScramMechanism.
_MECHANISMS = {1: SaslMechanism.SCRAM_SHA_256, 2: SaslMechanism.SCRAM_SHA_512}
_NUMBERS = {mechanism: number for number, mechanism in _MECHANISMS.items()}


async def handle_alter_user_scram_credentials(call: Call) -> Answer:
    results = []
    for name in _users(call):
        try:
            with translated(call):
                await _alter(call, name)
        except KafkaError as error:
            results.append({"user": name, "error_code": error.code, "error_message": error.message})
        else:
            results.append({"user": name})
    return {"results": results}


def refuse_alter_user_scram_credentials(call: Call, code: ErrorCode, message: str) -> Answer:
    return {"results": [{"user": name, "error_code": code, "error_message": message} for name in _users(call)]}


async def _alter(call: Call, name: str) -> None:
    deletions = [each for each in call.message.deletions if each.name == name]
    upsertions = [each for each in call.message.upsertions if each.name == name]
    mechanisms = [_mechanism(each.mechanism) for each in (*deletions, *upsertions)]
    if len(set(mechanisms)) < len(mechanisms):
        raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, f"a credential of {name!r} appears twice in one request")
    if not name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "the name of a user is empty")
    if any(not each.salted_password for each in upsertions):
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"the salted password of {name!r} is empty")
    if upsertions:
        credentials = {
            _mechanism(each.mechanism): credential_of(
                _mechanism(each.mechanism), bytes(each.salted_password), bytes(each.salt), each.iterations
            )
            for each in upsertions
        }
        await call.engine.users.put(User(name, credentials))
    for each in deletions:
        await call.engine.users.delete(name, _mechanism(each.mechanism))


def _mechanism(number: int) -> SaslMechanism:
    mechanism = _MECHANISMS.get(number)
    if mechanism is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"unknown SCRAM mechanism {number}: use 1 or 2")
    return mechanism


async def handle_describe_user_scram_credentials(call: Call) -> Answer:
    asked = call.message.users
    found = {user.name: user for user in await call.engine.users.list()}
    counts = Counter(user.name for user in asked) if asked else Counter(found.keys())
    return {"results": [_described(name, found.get(name), is_repeated=counts[name] > 1) for name in counts]}


def refuse_describe_user_scram_credentials(call: Call, code: ErrorCode, message: str) -> Answer:
    return {"error_code": code, "error_message": message}


def _described(name: str, user: User | None, *, is_repeated: bool) -> dict[str, Any]:
    if is_repeated:
        return {
            "user": name,
            "error_code": ErrorCode.DUPLICATE_RESOURCE,
            "error_message": f"user {name!r} appears twice in one request",
        }
    if user is None:
        return {
            "user": name,
            "error_code": ErrorCode.RESOURCE_NOT_FOUND,
            "error_message": f"user {name!r} does not exist",
        }
    return {
        "user": name,
        "credential_infos": [
            {"mechanism": _NUMBERS[mechanism], "iterations": credential.iterations}
            for mechanism, credential in user.credentials.items()
        ],
    }


def _users(call: Call) -> Sequence[str]:
    return list(dict.fromkeys(each.name for each in (*call.message.deletions, *call.message.upsertions)))
