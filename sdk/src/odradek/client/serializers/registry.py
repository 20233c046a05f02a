"""A schema registry as serializers see it: schemas by subject and by id.

`HttpRegistry` speaks Confluent's REST API: to Odradek's own registry, signed if it is a function, and to others. An id
always has the same schema, and a schema of a subject the same id. Both are cached, so only the first record of a
schema makes a call. That call blocks.
"""

from __future__ import annotations

import base64
import json
import logging
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any, Protocol, Self
from urllib.parse import quote, urlsplit

from odradek.backoff import Backoff
from odradek.client.transport.signer import Signer, region_of
from odradek.errors import ErrorCode, KafkaError
from odradek.system import SystemClock, SystemRng

logger = logging.getLogger(__package__)

_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
_DISCOVERY = "/.well-known/odradek"
_SERIALIZED = "?format=serialized"
_ATTEMPTS = 4
_BACKOFF = Backoff(SystemClock(), SystemRng(), first_s=0.1, max_s=1.0)


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """A schema that another one needs; `name` is the name by which it is imported."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema with its kind and references."""

    text: str
    kind: str = "AVRO"  # AVRO | JSON | PROTOBUF
    references: tuple[SchemaReference, ...] = ()


class Registry(Protocol):
    """A schema registry, as serializers see it. Methods raise KafkaError if the registry cannot answer."""

    def register(self, subject: str, schema: Schema) -> int:
        """Return the id of a schema under a subject, and register the schema if it is new."""
        ...

    def lookup(self, subject: str, schema: Schema) -> int:
        """Return the id of a schema registered under a subject. Raises KafkaError(INVALID_RECORD) if it is not."""
        ...

    def schema(self, schema_id: int, *, serialized: bool = False) -> Schema:
        """Return the schema of an id. Raises KafkaError(INVALID_RECORD) if the id is unknown.

        Args:
            serialized: for Protobuf the descriptor in base64, if the registry supports it; else the registered text.
        """
        ...

    def version_of(self, subject: str, schema: Schema) -> int:
        """Return the version of a registered schema under a subject. Raises as `lookup`."""
        ...

    def at(self, subject: str, version: int | None, *, serialized: bool = False) -> tuple[int, Schema]:
        """Return id and schema of a subject's version; None is the latest. Arguments and errors as of `schema`."""
        ...


class MemoryRegistry:
    """A registry in this process, for tests and for programs that share no schemas. Compatibility is not checked."""

    def __init__(self) -> None:
        self._ids: dict[Schema, int] = {}
        self._subjects: dict[str, list[Schema]] = {}

    def register(self, subject: str, schema: Schema) -> int:
        """Implement Registry.register."""
        versions = self._subjects.setdefault(subject, [])
        if schema not in versions:
            versions.append(schema)
        return self._ids.setdefault(schema, len(self._ids) + 1)

    def lookup(self, subject: str, schema: Schema) -> int:
        """Implement Registry.lookup."""
        self.version_of(subject, schema)
        return self._ids[schema]

    def schema(self, schema_id: int, *, serialized: bool = False) -> Schema:
        """Implement Registry.schema; always returns the registered text."""
        for schema, number in self._ids.items():
            if number == schema_id:
                return schema
        raise KafkaError(ErrorCode.INVALID_RECORD, f"the registry has no schema {schema_id}")

    def version_of(self, subject: str, schema: Schema) -> int:
        """Implement Registry.version_of."""
        if schema not in self._subjects.get(subject, ()):
            raise KafkaError(ErrorCode.INVALID_RECORD, f"the schema is not registered under {subject!r}")
        return self._subjects[subject].index(schema) + 1

    def at(self, subject: str, version: int | None, *, serialized: bool = False) -> tuple[int, Schema]:
        """Implement Registry.at; always returns the registered text."""
        versions = self._subjects.get(subject, [])
        number = len(versions) if version is None else version
        if not 0 < number <= len(versions):
            raise KafkaError(ErrorCode.INVALID_RECORD, f"subject {subject!r} has no version {version}")
        return self._ids[versions[number - 1]], versions[number - 1]


class HttpRegistry:
    """A registry behind Confluent's REST API.

    Args:
        url: such as https://registry.example
        user, password: for basic authentication.
        timeout_ms: of one attempt; calls are retried a few times.
        aws_region, aws_access_key_id, aws_secret_access_key, aws_session_token: to sign requests (SigV4). Requests to
            a function URL are also signed without them, with the credentials of botocore's default chain.
    """

    def __init__(
        self,
        url: str,
        *,
        user: str | None = None,
        password: str = "",
        timeout_ms: int = 10_000,
        aws_region: str | None = None,
        aws_access_key_id: str | None = None,
        aws_secret_access_key: str | None = None,
        aws_session_token: str | None = None,
    ) -> None:
        if urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"invalid registry URL {url!r}: it must begin with http:// or https://"
            )
        self._url = url.rstrip("/")
        self._timeout_s = timeout_ms / 1000
        self._headers = {"Accept": _CONTENT_TYPE, "Content-Type": _CONTENT_TYPE}
        if user is not None:
            token = base64.b64encode(f"{user}:{password}".encode()).decode()
            self._headers["Authorization"] = f"Basic {token}"
        self._signer: Signer | None = None
        self._region = aws_region or region_of(urlsplit(url).hostname or "")
        if user is None and (aws_access_key_id or self._region):
            self._signer = Signer(aws_access_key_id, aws_secret_access_key, aws_session_token)
        # One operation of a dict needs no lock, which a forked child might inherit locked.
        self._ids: dict[tuple[str, Schema], int] = {}
        self._schemas: dict[tuple[int, bool], Schema] = {}
        self._versions: dict[tuple[str, int | None, bool], tuple[int, Schema]] = {}

    @classmethod
    def discover(
        cls,
        bootstrap_servers: str,
        *,
        aws_region: str | None = None,
        timeout_ms: int = 10_000,
        **keys: Any,
    ) -> Self:
        """Return the registry of a deployment, given the coordinator's URL. `keys` are AWS keys as of a Producer.

        Raises KafkaError: INVALID_CONFIG if the deployment has no registry, NETWORK_EXCEPTION.
        """
        entrance = cls(bootstrap_servers, aws_region=aws_region or "us-east-1", timeout_ms=timeout_ms, **keys)
        if aws_region is None:
            host = urlsplit(bootstrap_servers).hostname or ""
            entrance._region = region_of(host) or (entrance._signer.default_region if entrance._signer else None)
        document = entrance._call("GET", _DISCOVERY, None)
        if "registry" not in document:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"{bootstrap_servers} has no schema registry: upgrade the service"
            )
        region = aws_region or document.get("region")
        return cls(str(document["registry"]), aws_region=region, timeout_ms=timeout_ms, **keys)

    def register(self, subject: str, schema: Schema) -> int:
        """Implement Registry.register. Raises KafkaError(INVALID_RECORD) if it is incompatible with earlier schemas."""
        return self._id(subject, schema, f"/subjects/{quote(subject, safe='')}/versions")

    def lookup(self, subject: str, schema: Schema) -> int:
        """Implement Registry.lookup."""
        return self._id(subject, schema, f"/subjects/{quote(subject, safe='')}")

    def schema(self, schema_id: int, *, serialized: bool = False) -> Schema:
        """Implement Registry.schema."""
        schema = self._schemas.get((schema_id, serialized))
        if schema is None:
            schema = _read(self._call("GET", f"/schemas/ids/{schema_id}{_SERIALIZED if serialized else ''}", None))
            self._schemas[schema_id, serialized] = schema
        return schema

    def version_of(self, subject: str, schema: Schema) -> int:
        """Implement Registry.version_of."""
        return int(self._call("POST", f"/subjects/{quote(subject, safe='')}", _body(schema))["version"])

    def at(self, subject: str, version: int | None, *, serialized: bool = False) -> tuple[int, Schema]:
        """Implement Registry.at. The latest version is requested once per process."""
        id_and_schema = self._versions.get((subject, version, serialized))
        if id_and_schema is None:
            number = "latest" if version is None else str(version)
            path = f"/subjects/{quote(subject, safe='')}/versions/{number}{_SERIALIZED if serialized else ''}"
            response = self._call("GET", path, None)
            id_and_schema = int(response["id"]), _read(response)
            self._versions[subject, version, serialized] = id_and_schema
        return id_and_schema

    def _id(self, subject: str, schema: Schema, path: str) -> int:
        schema_id = self._ids.get((subject, schema))
        if schema_id is None:
            schema_id = int(self._call("POST", path, _body(schema))["id"])
            self._ids[subject, schema] = schema_id
        return schema_id

    def _call(self, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        """Make a call, with retries: every call may be repeated, since registering a schema again returns its id."""
        url = self._url + path
        data = None if body is None else json.dumps(body).encode()
        for attempt in range(_ATTEMPTS):
            is_last = attempt == _ATTEMPTS - 1
            headers = dict(self._headers)
            if self._signer is not None:
                headers = self._signer.headers(method, url, data or b"", headers, self._region or "us-east-1")
            request = urllib.request.Request(url, data, headers, method=method)
            try:
                with urllib.request.urlopen(request, timeout=self._timeout_s) as response:
                    document: dict[str, Any] = json.loads(response.read())
                    return document
            except urllib.error.HTTPError as error:
                if is_last or not (error.code == 429 or error.code >= 500):
                    raise KafkaError(_code(error.code), f"the registry refused {path}: {_message(error)}") from None
                logger.warning("%s %s: attempt %d of %d failed: %s", method, url, attempt + 1, _ATTEMPTS, error)
            except (OSError, ValueError) as error:
                if is_last or isinstance(error, urllib.error.URLError):
                    raise KafkaError(
                        ErrorCode.NETWORK_EXCEPTION, f"the registry at {self._url} failed: {error}"
                    ) from None
                logger.warning("%s %s: attempt %d of %d failed: %s", method, url, attempt + 1, _ATTEMPTS, error)
            time.sleep(_BACKOFF.delay_s(attempt))
        raise AssertionError("the last attempt returns or raises")


def _body(schema: Schema) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": schema.text}
    if schema.kind != "AVRO":
        body["schemaType"] = schema.kind
    if schema.references:
        body["references"] = [
            {"name": reference.name, "subject": reference.subject, "version": reference.version}
            for reference in schema.references
        ]
    return body


def _read(response: dict[str, Any]) -> Schema:
    references = tuple(
        SchemaReference(str(reference["name"]), str(reference["subject"]), int(reference["version"]))
        for reference in response.get("references") or ()
    )
    return Schema(str(response["schema"]), str(response.get("schemaType") or "AVRO"), references)


def _code(status: int) -> ErrorCode:
    if status in (401, 403):
        return ErrorCode.SASL_AUTHENTICATION_FAILED
    return ErrorCode.NETWORK_EXCEPTION if status == 429 or status >= 500 else ErrorCode.INVALID_RECORD


def _message(error: urllib.error.HTTPError) -> str:
    try:
        document = json.loads(error.read())
        return str(document.get("message") or document["Message"])[:500]
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        return f"HTTP {error.code}"
