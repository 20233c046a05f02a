"""The REST API of triggers: a request's method, path and body to a response. Knows no transport.

    GET    /                   all triggers            POST   /{name}/pause     stop calling
    POST   /                   create one              POST   /{name}/resume    call again
    GET    /{name}             describe one            POST   /{name}/reset     {"position", "timestamp_ms"}
    DELETE /{name}             delete one

A response is (status, document); an error is `{"error": <Kafka error name>, "message"}`. ACLs, which are those of what
the trigger does:

    create           READ topic, READ group, and ALTER cluster: the service's own role calls the function
    list, describe   DESCRIBE group
    pause, resume    READ group, ALTER cluster
    reset            READ group
    delete           DELETE group, ALTER cluster
    on_failure       WRITE topic, if it is one
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote, urlsplit

from odradek.dispatcher.access import Access
from odradek.engine.access.acls import Acls
from odradek.errors import ErrorCode, KafkaError
from odradek.http.json_body import NotJson, parse_json
from odradek.model.acl import CLUSTER, AclOperation, ResourceType
from odradek.model.trigger import FunctionKind, Trigger, document_of, status_document, trigger_of
from odradek.triggers.definition import not_found
from odradek.triggers.triggers import Triggers

_audit = logging.getLogger("odradek.audit")
_BODY_BYTES_MAX = 64 * 1024


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request, independent of the transport."""

    method: str
    path: str  # still percent-encoded
    body: bytes
    principal: str
    client_host: str


class TriggersApi:
    """Routes requests, checks authorization, and calls `Triggers`.

    Args:
        triggers: what is called.
        acls: the rules of authorization.
    """

    def __init__(self, triggers: Triggers, acls: Acls) -> None:
        self._triggers = triggers
        self._acls = acls

    async def answer(self, request: Request) -> tuple[int, dict[str, Any]]:
        """Return status and document. No client can cause an exception but the store's."""
        try:
            access = Access(await self._acls.current(), request.principal, request.client_host)
            document = await self._route(request, access)
        except KafkaError as refused:
            if request.method != "GET":
                _audit.info(_line(request, refused.code.name))
            return refused.code.http_status, {"error": refused.code.name, "message": refused.message}
        if request.method != "GET":
            _audit.info(_line(request, "NONE"))
        return 200, document

    async def replace(self, document: str, expected_name: str) -> Trigger:
        """Create the trigger of a JSON document, or change the options of the one that has its name.

        Args:
            expected_name: the name that it had before; empty: there was none. Under another name it is another trigger.

        Raises KafkaError.
        """
        trigger = trigger_of(json.loads(document))
        if expected_name == trigger.name:
            return await self._triggers.change(trigger)
        return await self._triggers.create(trigger)

    async def delete_if_there(self, name: str) -> None:
        """Delete a trigger, unless there is none of the name. Raises KafkaError."""
        try:
            await self._triggers.delete(name)
        except KafkaError as error:
            if error.code is not ErrorCode.RESOURCE_NOT_FOUND:
                raise

    async def _route(self, request: Request, access: Access) -> dict[str, Any]:
        parts = [unquote(part) for part in request.path.split("/") if part]
        match request.method, parts:
            case "GET", []:
                return await self._list(access)
            case "POST", []:
                return await self._create(_document(request), access)
            case "GET", [name]:
                trigger = await self._known(name, access, AclOperation.DESCRIBE)
                status = await self._triggers.describe(trigger.name)
                return status_document(replace(status, trigger=_shown(status.trigger, access)))
            case "DELETE", [name]:
                await self._known(name, access, AclOperation.DELETE, is_admin=True)
                await self._triggers.delete(name)
                return {}
            case "POST", [name, "pause" | "resume" as step]:
                await self._known(name, access, AclOperation.READ, is_admin=True)
                changed = await (self._triggers.pause(name) if step == "pause" else self._triggers.resume(name))
                return document_of(changed, with_secret=False)
            case "POST", [name, "reset"]:
                await self._known(name, access, AclOperation.READ)
                document = _document(request)
                position, timestamp_ms = document.get("position"), document.get("timestamp_ms", 0)
                if not isinstance(position, str) or type(timestamp_ms) is not int:
                    raise _invalid("reset needs a position: LATEST, TRIM_HORIZON, or AT_TIMESTAMP with timestamp_ms")
                offsets = await self._triggers.reset(name, position, timestamp_ms)
                return {"offsets": {str(number): offset for number, offset in offsets.items()}}
        raise _invalid(f"triggers have no {request.method} {request.path!r}")

    async def _list(self, access: Access) -> dict[str, Any]:
        triggers = await self._triggers.list_all()
        visible = [trigger for trigger in triggers if _is_visible(trigger, access)]
        return {"triggers": [document_of(_shown(trigger, access), with_secret=False) for trigger in visible]}

    async def _create(self, document: Mapping[str, Any], access: Access) -> dict[str, Any]:
        if "created_ms" in document:
            raise _invalid("created_ms is set by the service")
        trigger = trigger_of(document)
        access.require(AclOperation.READ, ResourceType.TOPIC, trigger.topic)
        access.require(AclOperation.READ, ResourceType.GROUP, trigger.group)
        access.require(AclOperation.ALTER, *CLUSTER)
        destination_kind, _, destination = trigger.on_failure.partition(":")
        if destination_kind == "topic":
            access.require(AclOperation.WRITE, ResourceType.TOPIC, destination)
        created = await self._triggers.create(trigger)
        return document_of(created, with_secret=bool(created.secret))

    async def _known(self, name: str, access: Access, operation: AclOperation, *, is_admin: bool = False) -> Trigger:
        trigger = await self._triggers.get(name)
        if not _is_visible(trigger, access):
            raise not_found(name)
        access.require(operation, ResourceType.GROUP, trigger.group)
        if is_admin:
            access.require(AclOperation.ALTER, *CLUSTER)
        return trigger


def _is_visible(trigger: Trigger, access: Access) -> bool:
    """Return True for a trigger whose group and topic the caller may describe; others are not there."""
    is_group = access.may_group(AclOperation.DESCRIBE, trigger.group)
    return is_group and access.may_topic(AclOperation.DESCRIBE, trigger.topic)


def _shown(trigger: Trigger, access: Access) -> Trigger:
    """Return a trigger as the caller may see it.

    A URL is often a secret in itself: its path is for those who may change it. A failure topic that the caller may not
    describe has no name.
    """
    if trigger.kind is FunctionKind.WEBHOOK and not access.may_cluster(AclOperation.ALTER):
        parts = urlsplit(trigger.function)
        trigger = replace(trigger, function=f"{parts.scheme}://{parts.hostname}/...")
    destination_kind, _, destination = trigger.on_failure.partition(":")
    if destination_kind == "topic" and not access.may_topic(AclOperation.DESCRIBE, destination):
        trigger = replace(trigger, on_failure="topic:...")
    return trigger


def _document(request: Request) -> dict[str, Any]:
    try:
        document = parse_json(request.body or b"null") if len(request.body) <= _BODY_BYTES_MAX else None
    except NotJson as error:
        raise _invalid(f"the body must be a JSON object: {error}") from None
    if not isinstance(document, dict):
        raise _invalid("the body must be a JSON object")
    return document


def _line(request: Request, code: str) -> str:
    line = {
        "api": "TRIGGERS",
        "method": request.method,
        "path": request.path,
        "principal": request.principal,
        "host": request.client_host,
        "error": code,
    }
    return json.dumps(line)


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
