"""DescribeClientQuotas and AlterClientQuotas (KIP-546), of users, client ids and IP addresses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from odradek.dispatcher.context import Answer, Call
from odradek.engine.access.client_quotas import canonical_address
from odradek.errors import ErrorCode, KafkaError
from odradek.model.quota import DEFAULT, QuotaEntity

_USER, _CLIENT, _IP = _KINDS = ("user", "client-id", "ip")  # in the order of QuotaEntity
_EXACT, _OF_DEFAULT, _ANY = range(3)  # Kafka's match types


async def handle_describe_client_quotas(call: Call) -> Answer:
    matches: dict[str, Any] = {}
    for component in call.message.components:
        if component.entity_type not in _KINDS or component.entity_type in matches:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"cannot filter quotas by {component.entity_type!r}: use user, client-id or ip, each once",
            )
        if component.match_type not in (_EXACT, _OF_DEFAULT, _ANY):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"match type {component.match_type} is not known")
        if (component.match_type == _EXACT) != (component.match is not None):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "an exact match needs a name; the default and any match must not have one"
            )
        matches[component.entity_type] = component
    if _IP in matches and len(matches) > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "cannot filter quotas by ip and by another entity type together")
    entries = [
        {
            "entity": _told(entity),
            "values": [{"key": name, "value": float(value)} for name, value in sorted(values.items())],
        }
        for entity, values in (await call.engine.client_quotas.list()).items()
        if all(
            _fits(matches.get(kind), name, is_strict=call.message.strict)
            for kind, name in zip(_KINDS, entity, strict=True)
        )
    ]
    return {"entries": entries}


def refuse_describe_client_quotas(call: Call, code: ErrorCode, message: str) -> Answer:
    return {"error_code": code, "error_message": message, "entries": None}


def _fits(component: Any, name: str | None, *, is_strict: bool) -> bool:
    if component is None:
        return name is None or not is_strict
    if name is None:
        return False
    match component.match_type:
        case 0:
            return name != DEFAULT and name == component.match
        case 1:
            return name == DEFAULT
        case _:
            return True


def _told(entity: QuotaEntity) -> list[dict[str, Any]]:
    """Kafka's names; the default entity has none."""
    return [
        {"entity_type": kind, "entity_name": name or None}
        for kind, name in zip(_KINDS, entity, strict=True)
        if name is not None
    ]


async def handle_alter_client_quotas(call: Call) -> Answer:
    counts = Counter(_named(entry) for entry in call.message.entries)
    results = []
    for entity, entry in {_named(entry): entry for entry in call.message.entries}.items():
        result: dict[str, Any] = {"entity": _echo(entry.entity)}
        try:
            if counts[entity] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "an entity appears twice in one request")
            changes = {op.key: None if op.remove else float(op.value) for op in entry.ops}
            if len(changes) < len(entry.ops):
                raise KafkaError(ErrorCode.INVALID_REQUEST, "a quota is changed twice in one request")
            await call.engine.client_quotas.alter(
                _entity(entry.entity), changes, validate_only=call.message.validate_only
            )
        except KafkaError as error:
            result |= {"error_code": error.code, "error_message": error.message}
        results.append(result)
    return {"entries": results}


def refuse_alter_client_quotas(call: Call, code: ErrorCode, message: str) -> Answer:
    return {
        "entries": [
            {"error_code": code, "error_message": message, "entity": _echo(entry.entity)}
            for entry in call.message.entries
        ]
    }


def _named(entry: Any) -> frozenset[tuple[str, str | None]]:
    return frozenset((part.entity_type, part.entity_name) for part in entry.entity)


def _entity(parts: Sequence[Any]) -> QuotaEntity:
    names = {part.entity_type: part.entity_name or DEFAULT for part in parts}
    unknown = set(names) - set(_KINDS)
    if unknown or len(names) < len(parts):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a quota is for one user, one client-id, one of each, or one ip")
    if any(part.entity_name == "" for part in parts):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a name cannot be empty: null means the default")
    address = names.get(_IP)
    return QuotaEntity(names.get(_USER), names.get(_CLIENT), address and (canonical_address(address) or address))


def _echo(parts: Sequence[Any]) -> list[dict[str, Any]]:
    return [{"entity_type": part.entity_type, "entity_name": part.entity_name} for part in parts]
