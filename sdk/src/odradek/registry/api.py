"""The registry's REST API: a request's method, path and body to a response, as Confluent's. Knows no transport.

    GET                                        POST                              PUT        DELETE
    /subjects                                  /subjects/{s}  (look up)                     /subjects/{s}
    /subjects/{s}/versions                     /subjects/{s}/versions                       /subjects/{s}/versions/{v}
    /subjects/{s}/versions/{v}[/schema|/referencedby]
    /schemas, /schemas/types
    /schemas/ids/{id}[/schema|/subjects|/versions], /schemas/guids/{guid}
                                               /compatibility/subjects/{s}/versions[/{v}]
    /config[/{s}], /mode[/{s}]                                                   the same   the same
    /contexts, /v1/metadata/id, /v1/metadata/version, /

Queries: normalize, deleted, deletedOnly, permanent, verbose, defaultToGlobal, force, format=serialized, subjectPrefix,
latestOnly, offset, limit. Contexts, metadata, rule sets and associations are not supported; requests with them are
refused. A response is (status, document); an error is `{"error_code", "message"}`. Source: Confluent's API reference.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote
from uuid import UUID

from odradek.dispatcher.access import Access
from odradek.engine.access.acls import Acls
from odradek.errors import ItemTooLarge, KafkaError, StoreRejected
from odradek.http.json_body import NotJson, parse_json
from odradek.model.acl import AclOperation
from odradek.registry import errors
from odradek.registry.compatibility import DEFAULT_LEVEL, Level
from odradek.registry.errors import RegistryError
from odradek.registry.rights import may, may_read_any, require
from odradek.registry.rows import StoredSchema
from odradek.registry.schemas import KINDS, Reference, Schema, serialized
from odradek.registry.subjects import MODES, Registered, Subjects

T = TypeVar("T")

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
_audit = logging.getLogger("odradek.audit")
_LIMIT_MAX = 10_000

_READ, _WRITE, _DELETE = AclOperation.DESCRIBE, AclOperation.WRITE, AclOperation.DELETE
_SEE, _CHOOSE = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request, independent of the transport."""

    method: str
    path: str  # still percent-encoded: a subject may contain a slash
    query: str
    body: bytes
    principal: str
    client_host: str


@dataclass(frozen=True, slots=True)
class _Call:
    """A request, decoded."""

    request: Request
    access: Access
    query: Mapping[str, str]
    parts: Sequence[str]  # the groups of the route's pattern, in order

    def flag(self, name: str) -> bool:
        return self.query.get(name, "").lower() == "true"

    def document(self) -> dict[str, Any]:
        """Return the body. Raises RegistryError(400)."""
        try:
            document = parse_json(self.request.body or b"null")
        except NotJson as error:
            raise RegistryError(400, f"The body must be a JSON object: {error}") from None
        if not isinstance(document, dict):
            raise RegistryError(400, "The body must be a JSON object")
        return document

    def page(self, items: Sequence[T]) -> list[T]:
        offset, limit = (self._number(name, default) for name, default in (("offset", 0), ("limit", -1)))
        return list(items[offset:] if limit < 0 else items[offset : offset + limit])

    def _number(self, name: str, default: int) -> int:
        text = self.query.get(name, "")
        return int(text) if re.fullmatch(r"-?\d{1,9}", text) and int(text) >= -1 else default


Answer = Any
Handler = Callable[[_Call], Awaitable[Answer]]


class Text(str):
    """A response that is the text of a schema."""


class RegistryApi:
    """Routes requests, checks authorization, and calls the registry.

    Args:
        subjects: the registry.
        acls: the rules of authorization.
        cluster_id: shown as the registry's cluster.
    """

    def __init__(self, subjects: Subjects, acls: Acls, cluster_id: str) -> None:
        self._subjects = subjects
        self._acls = acls
        self._cluster_id = cluster_id
        one = r"/subjects/(?P<subject>[^/]+)"
        version = rf"{one}/versions/(?P<version>[^/]+)"
        setting = r"(?:/(?P<subject>[^/]+))?"
        routes: list[tuple[str, str, Handler]] = [
            ("GET", "/", self._root),
            ("GET", "/subjects", self._list_subjects),
            ("POST", one, self._look_up),
            ("DELETE", one, self._delete_subject),
            ("GET", rf"{one}/versions", self._list_versions),
            ("POST", rf"{one}/versions", self._register),
            ("GET", version, self._get_version),
            ("DELETE", version, self._delete_version),
            ("GET", rf"{version}/schema", self._get_version_text),
            ("GET", rf"{version}/referencedby", self._referenced_by),
            ("GET", "/schemas", self._list_schemas),
            ("GET", "/schemas/types", self._types),
            ("GET", r"/schemas/ids/(?P<id>[^/]+)", self._get_schema),
            ("GET", r"/schemas/ids/(?P<id>[^/]+)/schema", self._get_schema_text),
            ("GET", r"/schemas/ids/(?P<id>[^/]+)/subjects", self._subjects_of),
            ("GET", r"/schemas/ids/(?P<id>[^/]+)/versions", self._versions_of),
            ("GET", r"/schemas/guids/(?P<guid>[^/]+)", self._get_by_guid),
            ("POST", r"/compatibility/subjects/(?P<subject>[^/]+)/versions", self._check_all),
            ("POST", rf"/compatibility{version}", self._check_one),
            ("GET", rf"/config{setting}", self._get_config),
            ("PUT", rf"/config{setting}", self._put_config),
            ("DELETE", rf"/config{setting}", self._delete_config),
            ("GET", rf"/mode{setting}", self._get_mode),
            ("PUT", rf"/mode{setting}", self._put_mode),
            ("DELETE", rf"/mode{setting}", self._delete_mode),
            ("GET", "/contexts", self._contexts),
            ("GET", "/v1/metadata/id", self._cluster),
            ("GET", "/v1/metadata/version", self._version),
        ]
        self._routes = [(method, re.compile(pattern), handler) for method, pattern, handler in routes]

    @property
    def routes(self) -> list[tuple[str, str]]:
        """The method and the pattern of the path of each request that is known."""
        return [(method, pattern.pattern) for method, pattern, _ in self._routes]

    async def answer(self, request: Request) -> tuple[int, Answer]:
        """Return status and document. No client can cause an exception."""
        try:
            handler, parts = self._route(request)
            access = Access(await self._acls.current(), request.principal, request.client_host)
            call = _Call(request, access, dict(parse_qsl(request.query, keep_blank_values=True)), parts)
            document = await handler(call)
        except RegistryError as refused:
            self._write_audit(request, refused.error_code)
            return refused.status, {"error_code": refused.error_code, "message": refused.message}
        except (ItemTooLarge, StoreRejected):
            never = errors.not_permitted(
                "The request exceeds a limit of the registry's table: use shorter names or fewer versions"
            )
            self._write_audit(request, never.error_code)
            return never.status, {"error_code": never.error_code, "message": never.message}
        except KafkaError as error:  # the ACLs cannot be read
            return 503, {"error_code": 50301, "message": error.message}
        self._write_audit(request, 0)
        return 200, document

    def _route(self, request: Request) -> tuple[Handler, list[str]]:
        path = request.path.rstrip("/") or "/"
        is_known = False
        for method, pattern, handler in self._routes:
            match = pattern.fullmatch(path)
            if match is None:
                continue
            is_known = True
            if method == request.method:
                return handler, [unquote(part) if part is not None else "" for part in match.groups()]
        if is_known:
            raise RegistryError(405, "HTTP 405 Method Not Allowed")
        raise RegistryError(404, "HTTP 404 Not Found")

    def _write_audit(self, request: Request, code: int) -> None:
        """Log a request that changes the registry; reads and compatibility checks are not logged."""
        if request.method == "GET" or request.path.startswith("/compatibility"):
            return
        line = {
            "audit": f"REGISTRY {request.method} {request.path[:200]}",
            "principal": request.principal,
            "client_host": request.client_host,
            "outcome": code or "NONE",
        }
        _audit.info("audit %(audit)s by %(principal)s", line)

    # --- subjects -----------------------------------------------------------------------------------------------------

    async def _list_subjects(self, call: _Call) -> Answer:
        prefix = call.query.get("subjectPrefix", "").removeprefix(":*:")
        names = await self._subjects.names(prefix, deleted=call.flag("deleted"), deleted_only=call.flag("deletedOnly"))
        return call.page([name for name in names if may(call.access, _READ, name)])

    async def _list_versions(self, call: _Call) -> Answer:
        (subject,) = call.parts
        require(call.access, _READ, subject)
        numbers = await self._subjects.versions(
            subject, deleted=call.flag("deleted"), deleted_only=call.flag("deletedOnly")
        )
        return call.page(numbers)

    async def _get_version(self, call: _Call) -> Answer:
        return await self._shown(await self._found(call), call)

    async def _get_version_text(self, call: _Call) -> Answer:
        return Text((await self._found(call)).stored.schema.text)

    async def _found(self, call: _Call) -> Registered:
        subject, version = call.parts
        require(call.access, _READ, subject)
        return await self._subjects.version(subject, _version(version), deleted=call.flag("deleted"))

    async def _referenced_by(self, call: _Call) -> Answer:
        subject, version = call.parts
        require(call.access, _READ, subject)
        schema_ids = await self._subjects.referenced_by(subject, _version(version))
        return call.page([schema_id for schema_id in schema_ids if await self._is_readable(schema_id, call)])

    async def _is_readable(self, schema_id: int, call: _Call) -> bool:
        try:
            await self._readable(await self._subjects.schema(schema_id), call)
        except RegistryError:
            return False
        return True

    async def _look_up(self, call: _Call) -> Answer:
        (subject,) = call.parts
        require(call.access, _READ, subject)
        registered = await self._subjects.lookup(
            subject, _readable_schema(call), normalize=call.flag("normalize"), deleted=call.flag("deleted")
        )
        return await self._shown(registered, call)

    async def _register(self, call: _Call) -> Answer:
        (subject,) = call.parts
        require(call.access, _WRITE, subject)
        document = call.document()
        schema = _readable_schema(call)
        made = await self._subjects.register(
            subject,
            schema,
            normalize=call.flag("normalize"),
            schema_id=_positive(document, "id"),
            version=_positive(document, "version"),
        )
        return {"id": made.stored.schema_id, "version": made.version, **_described(made.stored)}

    async def _delete_subject(self, call: _Call) -> Answer:
        (subject,) = call.parts
        require(call.access, _DELETE, subject)
        return await self._subjects.delete_subject(subject, permanent=call.flag("permanent"))

    async def _delete_version(self, call: _Call) -> Answer:
        subject, version = call.parts
        require(call.access, _DELETE, subject)
        return await self._subjects.delete_version(subject, _version(version), permanent=call.flag("permanent"))

    async def _check_all(self, call: _Call) -> Answer:
        return await self._check(call, call.parts[0], None, every=True)

    async def _check_one(self, call: _Call) -> Answer:
        subject, version = call.parts
        return await self._check(call, subject, _version(version), every=False)

    async def _check(self, call: _Call, subject: str, version: int | None, *, every: bool) -> Answer:
        require(call.access, _READ, subject)
        messages = await self._subjects.check(
            subject, _readable_schema(call), version=version, every=every, normalize=call.flag("normalize")
        )
        verbose = {"messages": messages} if call.flag("verbose") else {}
        return {"is_compatible": not messages, **verbose}

    # --- schemas ------------------------------------------------------------------------------------------------------

    async def _list_schemas(self, call: _Call) -> Answer:
        schemas = await self._subjects.schemas(
            call.query.get("subjectPrefix", "").removeprefix(":*:"),
            deleted=call.flag("deleted"),
            latest_only=call.flag("latestOnly"),
        )
        return [
            await self._shown(registered, call)
            for registered in call.page(schemas)
            if may(call.access, _READ, registered.subject)
        ][:_LIMIT_MAX]

    async def _types(self, call: _Call) -> Answer:
        return list(KINDS)

    async def _get_schema(self, call: _Call) -> Answer:
        return await self._schema_shown(await self._stored(call), call)

    async def _get_schema_text(self, call: _Call) -> Answer:
        return Text((await self._stored(call)).schema.text)

    async def _get_by_guid(self, call: _Call) -> Answer:
        try:
            guid = UUID(call.parts[0])
        except ValueError:
            raise errors.RegistryError(40403, f"Schema {call.parts[0][:60]} not found") from None
        stored = await self._subjects.schema_by_guid(guid)
        if not await self._is_readable(stored.schema_id, call):
            raise errors.RegistryError(40403, f"Schema {guid} not found")
        return await self._schema_shown(stored, call)

    async def _subjects_of(self, call: _Call) -> Answer:
        return call.page(sorted({subject for subject, _ in await self._uses(call)}))

    async def _versions_of(self, call: _Call) -> Answer:
        return call.page([{"subject": subject, "version": version} for subject, version in await self._uses(call)])

    async def _uses(self, call: _Call) -> list[tuple[str, int]]:
        stored = await self._stored(call)
        uses = await self._subjects.uses(stored.schema_id, deleted=call.flag("deleted"))
        return [use for use in uses if may(call.access, _READ, use[0])]

    async def _stored(self, call: _Call) -> StoredSchema:
        text = call.parts[0]
        if not re.fullmatch(r"\d{1,10}", text):
            raise errors.RegistryError(404, f"HTTP 404 Not Found: invalid schema id {text[:40]!r}")
        return await self._readable(await self._subjects.schema(int(text)), call)

    async def _readable(self, stored: StoredSchema, call: _Call) -> StoredSchema:
        """Return the schema. Raises RegistryError(40403), as if it did not exist, if the caller may not read it."""
        if may_read_any(call.access, stored.subjects):
            return stored
        fresh = await self._subjects.fresh_schema(stored.schema_id)
        names = [name for name, _ in await self._subjects.uses(stored.schema_id, deleted=True)]
        if may_read_any(call.access, [*fresh.subjects, *names]):
            return fresh
        raise errors.schema_not_found(stored.schema_id)

    async def _shown(self, registered: Registered, call: _Call) -> dict[str, Any]:
        shown = await self._schema_shown(registered.stored, call)
        return {
            "subject": registered.subject,
            "version": registered.version,
            "id": registered.stored.schema_id,
            **shown,
        }

    async def _schema_shown(self, stored: StoredSchema, call: _Call) -> dict[str, Any]:
        text = stored.schema.text
        if call.query.get("format") == "serialized" and stored.schema.kind == "PROTOBUF":
            text = serialized(await self._subjects.parsed(stored))
        return {**_described(stored), "schema": text}

    # --- configuration ------------------------------------------------------------------------------------------------

    async def _get_config(self, call: _Call) -> Answer:
        subject = call.parts[0] or None
        require(call.access, _SEE, subject)
        config = await self._subjects.config(subject)
        if subject is not None and config.level is None:
            if not call.flag("defaultToGlobal"):
                raise errors.no_subject_compatibility(subject)
            config = await self._subjects.effective(subject)
        normalize = {} if config.normalize is None else {"normalize": config.normalize}
        return {"compatibilityLevel": (config.level or DEFAULT_LEVEL).value, **normalize}

    async def _put_config(self, call: _Call) -> Answer:
        subject = call.parts[0] or None
        require(call.access, _CHOOSE, subject)
        document = call.document()
        _refuse(document, "compatibilityGroup", "defaultMetadata", "overrideMetadata", "defaultRuleSet",
                "overrideRuleSet", "alias")  # fmt: skip
        level, normalize = document.get("compatibility"), document.get("normalize")
        name = level.upper() if isinstance(level, str) else level
        if (name is not None or normalize is None) and name not in set(Level):
            raise errors.invalid_compatibility(level)
        if normalize is not None and not isinstance(normalize, bool):
            raise RegistryError(422, "normalize must be true or false")
        chosen = None if name is None else Level(str(name))
        await self._subjects.set_config(subject, level=chosen, normalize=normalize)
        shown: dict[str, Any] = {} if chosen is None else {"compatibility": chosen.value}
        return shown if normalize is None else {**shown, "normalize": normalize}

    async def _delete_config(self, call: _Call) -> Answer:
        subject = call.parts[0] or None
        require(call.access, _CHOOSE, subject)
        before = await self._subjects.clear_config(subject)
        return {"compatibilityLevel": (before.level or DEFAULT_LEVEL).value}

    async def _get_mode(self, call: _Call) -> Answer:
        subject = call.parts[0] or None
        require(call.access, _SEE, subject)
        mode = (await self._subjects.config(subject)).mode
        if subject is not None and mode is None:
            if not call.flag("defaultToGlobal"):
                raise errors.no_subject_mode(subject)
            mode = (await self._subjects.effective(subject)).mode
        return {"mode": mode or MODES[0]}

    async def _put_mode(self, call: _Call) -> Answer:
        subject = call.parts[0] or None
        require(call.access, _CHOOSE, subject)
        mode = call.document().get("mode")
        if not isinstance(mode, str) or mode.upper() not in MODES:
            raise errors.invalid_mode(mode)
        await self._subjects.set_mode(subject, mode.upper(), force=call.flag("force"))
        return {"mode": mode.upper()}

    async def _delete_mode(self, call: _Call) -> Answer:
        subject = call.parts[0] or None
        require(call.access, _CHOOSE, subject)
        return {"mode": await self._subjects.clear_mode(subject)}

    # --- the registry -------------------------------------------------------------------------------------------------

    async def _root(self, call: _Call) -> Answer:
        return {}

    async def _contexts(self, call: _Call) -> Answer:
        return ["."]

    async def _cluster(self, call: _Call) -> Answer:
        clusters = {"kafka-cluster": self._cluster_id, "schema-registry-cluster": self._cluster_id}
        return {"scope": {"path": [], "clusters": clusters}, "id": self._cluster_id}

    async def _version(self, call: _Call) -> Answer:
        from importlib.metadata import version

        return {"version": f"odradek-{version('odradek')}", "commitId": ""}


def _described(stored: StoredSchema) -> dict[str, Any]:
    """Return the attributes that every response about a schema has; a missing type means AVRO."""
    schema = stored.schema
    shown: dict[str, Any] = {"guid": str(stored.guid)}
    if schema.kind != "AVRO":
        shown["schemaType"] = schema.kind
    if schema.references:
        shown["references"] = [
            {"name": reference.name, "subject": reference.subject, "version": reference.version}
            for reference in schema.references
        ]
    return shown


def _readable_schema(call: _Call) -> Schema:
    """Return the schema of a body, all of whose references the caller may read: errors about it tell their fields.

    Raises RegistryError.
    """
    schema = _schema(call.document())
    for reference in schema.references:
        require(call.access, _READ, reference.subject)
    return schema


def _schema(document: Mapping[str, Any]) -> Schema:
    """Return the schema of a body. Raises RegistryError."""
    _refuse(document, "metadata", "ruleSet", "schemaTagsToAdd", "schemaTagsToRemove")
    schema_type, text = document.get("schemaType") or "AVRO", document.get("schema")
    if schema_type not in KINDS:
        raise errors.invalid_schema(f"the type {str(schema_type)[:40]!r} is not one of {', '.join(KINDS)}")
    if not isinstance(text, str) or not text.strip():
        raise errors.invalid_schema("the schema is empty")
    references = document.get("references") or []
    if not isinstance(references, list):
        raise errors.invalid_schema("references must be a list")
    return Schema(schema_type, text, tuple(map(_reference, references)))


def _reference(data: Any) -> Reference:
    if not isinstance(data, dict) or not all(isinstance(data.get(key), str) for key in ("name", "subject")):
        raise errors.invalid_schema("a reference needs a name, a subject and a version")
    version = _positive(data, "version")
    if version is None:
        raise errors.invalid_schema(f"the reference {data['name'][:60]!r} has no version")
    return Reference(data["name"], data["subject"], version)


def _positive(data: Mapping[str, Any], key: str) -> int | None:
    """Return a positive number, or None if it is absent; clients also send 0 or -1 for an absent number."""
    value = data.get(key)
    if value is None or value in (0, -1):
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 1 << 31:
        raise RegistryError(42202 if key == "version" else 422, f"{key} must be a number between 1 and 2^31-1")
    return value


def _refuse(document: Mapping[str, Any], *keys: str) -> None:
    unsupported = [key for key in keys if document.get(key)]
    if unsupported:
        raise RegistryError(
            42201, f"{', '.join(unsupported)}: not supported by this registry, so nothing was registered"
        )


def _version(text: str) -> int | None:
    """Parse a version in a path; None is the latest. Raises RegistryError(42202)."""
    if text in ("latest", "-1"):
        return None
    if not re.fullmatch(r"\d{1,10}", text) or not 0 < int(text) < 1 << 31:
        raise errors.invalid_version(text[:40])
    return int(text)
