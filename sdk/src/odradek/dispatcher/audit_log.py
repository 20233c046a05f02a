"""The audit log: one line for every administrative request, with the principal and the outcome of each part.

    {"level": "INFO", "message": "audit CREATE_TOPICS by User:ada", "logger": "odradek.audit", "audit": "CREATE_TOPICS",
     "principal": "User:ada", "client_host": "192.0.2.7", "transport": "tcp", "client_id": "kafka-admin",
     "outcome": [["flights", "NONE"], ["other", "TOPIC_AUTHORIZATION_FAILED"]]}

It goes to the logger `odradek.audit`, level INFO, with its fields as a mapping (functions/logs.py writes the line). It
contains only names: never a password, a salted key, a configuration value or a record.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from odradek.dispatcher.context import Answer, Call
from odradek.errors import ErrorCode
from odradek.protocol.api import ApiKey

logger = logging.getLogger("odradek.audit")

_OUTCOMES_MAX = 100  # named per request, so that a line stays short

# The field with the outcomes, and in each the field with the name.
_PARTS: Mapping[ApiKey, tuple[str, tuple[str, ...]]] = {
    ApiKey.CREATE_TOPICS: ("topics", ("name",)),
    ApiKey.DELETE_TOPICS: ("responses", ("name", "topic_id")),
    ApiKey.CREATE_PARTITIONS: ("results", ("name",)),
    ApiKey.DELETE_RECORDS: ("topics", ("name",)),
    ApiKey.ALTER_CONFIGS: ("responses", ("resource_name",)),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ("responses", ("resource_name",)),
    ApiKey.DELETE_GROUPS: ("results", ("group_id",)),
    ApiKey.OFFSET_DELETE: ("topics", ("name",)),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: ("results", ("user",)),
    ApiKey.CREATE_ACLS: ("results", ()),
    ApiKey.DELETE_ACLS: ("filter_results", ()),
}


def audit(call: Call, answer: Answer) -> None:
    """Write the line of an administrative request; do nothing for other requests."""
    parts = _PARTS.get(call.request.api_key)
    if parts is None or not isinstance(answer, Mapping):
        return
    line = {
        "audit": call.request.api_key.name,
        "principal": call.context.principal,
        "client_host": call.context.client_host,
        "transport": call.context.transport,
        "client_id": call.request.client_id,
        "outcome": list(_outcomes(call, answer, *parts))[:_OUTCOMES_MAX],
    }
    logger.info("audit %(audit)s by %(principal)s", line)


def _outcomes(call: Call, answer: Mapping[str, Any], field: str, naming: tuple[str, ...]) -> Iterable[tuple[str, str]]:
    if answer.get("error_code"):
        yield getattr(call.message, "group_id", "*"), _code(answer["error_code"])
        return
    acls = _acls(call)
    for number, part in enumerate(answer.get(field, ())):
        name = next((str(part[key]) for key in naming if part.get(key)), "")
        codes = [each.get("error_code") for each in part.get("partitions", ())] or [part.get("error_code")]
        yield acls[number] if number < len(acls) else name, _code(next(filter(None, codes), ErrorCode.NONE))


def _code(code: Any) -> str:
    return ErrorCode(code or 0).name


def _acls(call: Call) -> list[str]:
    """Describe the ACLs of a request, in its order; empty for other requests."""
    if call.request.api_key is ApiKey.CREATE_ACLS:
        return [
            f"{acl.principal} {acl.permission_type}:{acl.operation} on {acl.resource_type}:{acl.resource_name}"
            for acl in call.message.creations
        ]
    if call.request.api_key is ApiKey.DELETE_ACLS:
        return [
            f"{each.principal_filter} {each.permission_type}:{each.operation} on "
            f"{each.resource_type_filter}:{each.resource_name_filter}"
            for each in call.message.filters
        ]
    return []
