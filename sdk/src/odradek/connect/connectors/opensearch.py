"""The OpenSearch sink, also for Elasticsearch: each record is a document, indexed in bulk; a tombstone deletes it.

A document's id is the record's key, and its version the record's offset (`version_type=external`): a write that comes
again, or late from a task that was replaced, is refused as a conflict and counts as done. So writes are idempotent, as
long as a key stays in its partition and the topic is not deleted and recreated.

Configurations are those of Confluent's Elasticsearch connector; `index`, `auth.type` and `aws.region` are ours.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, NamedTuple

from odradek.connect.config import ConfigDef, Kind, between, non_empty, one_of
from odradek.connect.connectors.text import text_of
from odradek.connect.data import logical
from odradek.connect.data.schema import Schema, Type
from odradek.connect.data.structs import Struct
from odradek.connect.errors import ConnectError, DataError, RetriableError
from odradek.connect.plugin import Configs, SinkConnector, SinkTask
from odradek.connect.record import SinkRecord
from odradek.extras import extra

with extra("connect-opensearch"):
    from opensearchpy import OpenSearch, Urllib3AWSV4SignerAuth
    from opensearchpy import exceptions as refused

_log = logging.getLogger("odradek.connect.opensearch")
_ID_BYTES_MAX = 512  # that the service takes
_DEFINITIONS = (
    ConfigDef()
    .define(
        "connection.url", Kind.LIST, documentation="Addresses of the cluster, such as https://search:9200.",
        importance="HIGH", allowed=non_empty(),
    )
    .define(
        "auth.type", Kind.STRING, "basic", "basic: user and password, if given; aws: SigV4, of Amazon OpenSearch.",
        allowed=one_of("basic", "aws"),
    )
    .define("connection.username", Kind.STRING, None, "The user of basic.")
    .define("connection.password", Kind.PASSWORD, None, "The password of basic.")
    .define("aws.region", Kind.STRING, None, "The region of aws; by default that of the environment.")
    .define("aws.service", Kind.STRING, "es", "The service of aws: es, or aoss for a serverless collection.",
            allowed=one_of("es", "aoss"))
    .define("ssl.ca.location", Kind.STRING, None, "File of the certificates to trust; by default certifi's.")
    .define("read.timeout.ms", Kind.INT, 30_000, "Time for one request.", allowed=between(1))
    .define("index", Kind.STRING, "${topic}", "Name of the index; ${topic} is the topic in lower case.",
            allowed=non_empty())
    .define(
        "key.ignore", Kind.BOOLEAN, False,
        "true: the id of a document is topic+partition+offset, and every record is one.", importance="HIGH",
    )
    .define(
        "schema.ignore", Kind.BOOLEAN, False,
        "false: a missing index is created with the mapping that follows from the record's schema, if it has one. "
        "true: the mapping is what the cluster makes of the first document.",
    )
    .define(
        "write.method", Kind.STRING, "INSERT",
        "INSERT: a record replaces the document. UPSERT: it replaces those fields that it has; without versions.",
        allowed=one_of("INSERT", "UPSERT", ignore_case=True),
    )
    .define(
        "behavior.on.null.values", Kind.STRING, "delete", "delete the document of a tombstone, ignore it, or fail.",
        allowed=one_of("ignore", "delete", "fail", ignore_case=True),
    )
    .define(
        "behavior.on.malformed.documents", Kind.STRING, "fail",
        "A document that the cluster refuses: fail sends it where errors.tolerance says, ignore and warn drop it.",
        allowed=one_of("ignore", "warn", "fail", ignore_case=True),
    )
    .define("batch.size", Kind.INT, 2_000, "Documents of one request.", allowed=between(1))
    .define("bulk.size.bytes", Kind.LONG, 5 * 1024 * 1024, "Bytes of one request, about.", allowed=between(1))
)  # fmt: skip


class _Action(NamedTuple):
    """A line or two of a bulk request."""

    record: SinkRecord
    target: tuple[str, str]  # index and id
    body: bytes
    is_versioned: bool


@contextmanager
def _translated(failure: str) -> Iterator[None]:
    try:
        yield
    except refused.ConnectionError as error:  # also time-outs
        raise RetriableError(f"{failure}: {error}") from error
    except refused.TransportError as error:
        status = error.status_code if isinstance(error.status_code, int) else 0
        error_type = RetriableError if status == 429 or status >= 500 else ConnectError
        raise error_type(f"{failure}: {status} {error.error}") from error


class OpenSearchSinkTask(SinkTask):
    """Indexes documents in bulk."""

    _client: OpenSearch | None = None

    def start(self, configs: Configs) -> None:
        self._options = options = _DEFINITIONS.parse(configs)
        self._client = _open(options)
        self._indices: set[str] = set()  # that exist
        self._left: list[_Action] | None = None  # of a batch that comes again after a failure

    def put(self, records: Sequence[SinkRecord]) -> None:
        waiting = self._actions(records) if self._left is None else self._left
        while waiting:
            self._left = waiting
            batch = self._batch(waiting)
            again = self._send(batch)
            waiting = [*again, *waiting[len(batch) :]]
            if again:
                self._left = waiting
                raise RetriableError(f"the cluster refused {len(again)} of {len(batch)} documents for now")
        self._left = None

    def _batch(self, waiting: list[_Action]) -> list[_Action]:
        size = count = 0
        for action in waiting[: self._options["batch.size"]]:
            size += len(action.body)
            if count and size > self._options["bulk.size.bytes"]:
                break
            count += 1
        return waiting[:count]

    # --- what a record becomes ------------------------------------------------------------------------------------

    def _actions(self, records: Sequence[SinkRecord]) -> list[_Action]:
        made = []
        for record in records:
            try:
                action = self._action(record)
            except DataError as error:
                self.context.errant_records.report(record, error)
                continue
            if action is not None:
                made.append(action)
        return made

    def _action(self, record: SinkRecord) -> _Action | None:
        """Return the lines of a record, None for one that is ignored. Raises DataError."""
        options = self._options
        is_keyed = not options["key.ignore"]
        if record.value is None:
            behavior = options["behavior.on.null.values"].lower()
            if behavior == "fail":
                raise DataError("the record has no value")
            if behavior == "ignore" or not is_keyed:
                return None
        document_id = self._index(record), self._id(record)
        target: dict[str, Any] = {"_index": document_id[0], "_id": document_id[1]}
        is_upsert = is_keyed and options["write.method"].upper() == "UPSERT"
        if is_keyed and not is_upsert:
            target |= {"version": record.source_position, "version_type": "external"}
        if record.value is None:
            return _Action(record, document_id, _lines({"delete": target}), not is_upsert)
        if not isinstance(record.value, Struct | Mapping):
            raise DataError("the value must be a struct or a map, whose fields are those of the document: HoistField")
        document = json_of(record.value)
        if is_upsert:
            target["retry_on_conflict"] = 3
            return _Action(
                record, document_id, _lines({"update": target}, {"doc": document, "doc_as_upsert": True}), False
            )
        return _Action(record, document_id, _lines({"index": target}, document), is_keyed)

    def _index(self, record: SinkRecord) -> str:
        name = str(self._options["index"]).replace("${topic}", record.topic.lower())
        if name not in self._indices and not self._options["schema.ignore"] and record.value_schema is not None:
            self._create(name, record.value_schema)
        self._indices.add(name)
        return name

    def _create(self, name: str, schema: Schema) -> None:
        assert self._client is not None
        if schema.type is not Type.STRUCT:
            return
        with _translated(f"the index {name} cannot be created"):
            if self._client.indices.exists(index=name):
                return
            try:
                self._client.indices.create(index=name, body={"mappings": mapping(schema)})
            except refused.RequestError as error:
                if error.error != "resource_already_exists_exception":  # another task was faster
                    raise

    def _id(self, record: SinkRecord) -> str:
        if self._options["key.ignore"]:
            return f"{record.source.topic}+{record.source.partition}+{record.source_position}"
        if record.key is None:
            raise DataError("the record has no key for the document's id: use ValueToKey, or key.ignore=true")
        own = text_of(record.key_schema, record.key)
        if len(own.encode()) > _ID_BYTES_MAX:
            raise DataError(f"the key has {len(own.encode())} bytes, more than the {_ID_BYTES_MAX} of a document's id")
        return own

    # --- the request ----------------------------------------------------------------------------------------------

    def _send(self, batch: list[_Action]) -> list[_Action]:
        """Send a bulk request, and return what is to be sent again."""
        assert self._client is not None
        with _translated("the documents cannot be indexed"):
            response = self._client.bulk(body=b"".join(action.body for action in batch))
        again: list[_Action] = []
        overtaken: set[tuple[str, str]] = set()  # without versions, a document's later changes must not come first
        for action, item in zip(batch, response["items"], strict=True):
            [(operation, result)] = item.items()
            status = int(result["status"])
            if action.target in overtaken:
                again.append(action)
                continue
            if status < 300 or (status == 404 and operation == "delete") or (status == 409 and action.is_versioned):
                continue
            if status in (409, 429) or status >= 500:
                again.append(action)
                if not action.is_versioned:
                    overtaken.add(action.target)
            else:
                self._refused(action.record, result.get("error"))
        return again

    def _refused(self, record: SinkRecord, error: Any) -> None:
        why = f"{error.get('type')}: {error.get('reason')}" if isinstance(error, Mapping) else str(error)
        behavior = self._options["behavior.on.malformed.documents"].lower()
        if behavior == "fail":
            self.context.errant_records.report(record, DataError(f"the cluster refused the document: {why}"))
        elif behavior == "warn":
            _log.warning("the document of %s at %d was dropped: %s", record.source, record.source_position, why)

    def stop(self) -> None:
        if self._client is not None:
            self._client.close()


def _open(configs: Mapping[str, Any]) -> OpenSearch:
    options: dict[str, Any] = {"timeout": configs["read.timeout.ms"] / 1000, "max_retries": 0, "http_compress": True}
    if configs["auth.type"] == "aws":
        with extra("aws"):
            import boto3
        session = boto3.Session()
        region = configs["aws.region"] or session.region_name
        if not region:
            raise ConnectError("auth.type=aws needs a region: set aws.region")
        options["http_auth"] = Urllib3AWSV4SignerAuth(session.get_credentials(), region, configs["aws.service"])
    elif configs["connection.username"]:
        options["http_auth"] = (configs["connection.username"], configs["connection.password"] or "")
    if configs["ssl.ca.location"]:
        options["ca_certs"] = configs["ssl.ca.location"]
    return OpenSearch(configs["connection.url"], **options)


def _lines(*documents: Mapping[str, Any]) -> bytes:
    text = (json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False) for document in documents)
    try:
        return "".join(f"{line}\n" for line in text).encode()
    except ValueError as error:  # NaN
        raise DataError(f"the value is not JSON: {error}") from error


def json_of(value: Any) -> Any:
    """Return a value as a document has it: numbers for decimals, ISO 8601 for times, Base64 for bytes."""
    if isinstance(value, Struct | Mapping):
        return {str(name): json_of(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [json_of(element) for element in value]
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dt.datetime):
        utc = (value if value.tzinfo else value.replace(tzinfo=dt.UTC)).astimezone(dt.UTC)
        return utc.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    return value


_KINDS = {
    Type.INT8: "byte", Type.INT16: "short", Type.INT32: "integer", Type.INT64: "long", Type.FLOAT32: "float",
    Type.FLOAT64: "double", Type.BOOLEAN: "boolean", Type.BYTES: "binary",
}  # fmt: skip
_LOGICAL = {logical.DECIMAL_NAME: "double", logical.DATE_NAME: "date", logical.TIMESTAMP_NAME: "date",
            logical.TIME_NAME: "keyword"}  # fmt: skip


def mapping(schema: Schema) -> dict[str, Any]:
    """Return the mapping of a schema's documents."""
    if schema.name in _LOGICAL:
        return {"type": _LOGICAL[schema.name]}
    if schema.type is Type.STRUCT:
        return {"properties": {field.name: mapping(field.schema) for field in schema.fields}}
    if schema.type is Type.ARRAY:
        return mapping(schema.elements)  # a field of one value or of many has the same type
    if schema.type is Type.MAP:
        return {"type": "object"}
    if schema.type is Type.STRING:
        return {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 256}}}
    return {"type": _KINDS[schema.type]}


class OpenSearchSinkConnector(SinkConnector):
    """Documents of OpenSearch or Elasticsearch, indexed and deleted by key."""

    task_class = OpenSearchSinkTask
    config_def = _DEFINITIONS

    def task_configs(self, tasks_max: int) -> list[dict[str, str]]:
        return [dict(self.configs)] * tasks_max
