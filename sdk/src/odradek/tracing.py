"""OpenTelemetry traces through client, function and store, with the extra `otel`; disabled by default.

    client     send <topic> (PRODUCER), receive (CONSUMER), commit and others (CLIENT)      a call, each attempt
      function   PRODUCE, FETCH ... (SERVER), linked by the header `traceparent` of the call (W3C Trace Context)
        store      update log, put objects ... (CLIENT)                                     a call at a port

A client enables it with `tracing=True`, functions and service with the setting `tracing` (ODRADEK_TRACING=true). Spans
go to the application's tracer provider; without one the API drops them. While it is disabled, nothing of OpenTelemetry
is imported, wrapped or called. Source: OpenTelemetry semantic conventions for messaging (Kafka), FaaS.

A span contains names, sizes and error codes, never a key, a value, a record's header or a credential.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from odradek.errors import KafkaError
from odradek.extras import extra
from odradek.ports.object_store import ObjectStore
from odradek.ports.tables import TableOperation, Tables

R = TypeVar("R")

_SCOPE = "odradek"
_OPERATIONS = {"ProduceRequest": ("send", "PRODUCER"), "FetchRequest": ("receive", "CONSUMER")}
_COMMITS = {"OffsetCommitRequest", "TxnOffsetCommitRequest", "EndTxnRequest"}
Pairs = Sequence[tuple[str, bytes | None]]


class Tracing:
    """Creates spans. Raises MissingExtra.

    Args:
        provider: receives the spans; None: the application's global one.
    """

    def __init__(self, provider: Any = None) -> None:
        with extra("otel"):
            from opentelemetry import propagate, trace
        self._trace, self._propagate = trace, propagate
        self._tracer = trace.get_tracer(_SCOPE, tracer_provider=provider)

    @contextmanager
    def span(self, name: str, span_kind: str, attributes: Mapping[str, Any], parent: Any = None) -> Iterator[Any]:
        """Open a span around a block; an exception that leaves the block becomes its error."""
        with self._tracer.start_as_current_span(
            name,
            context=parent,
            kind=self._trace.SpanKind[span_kind],
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except Exception as error:
                self.fail(span, error.code.name if isinstance(error, KafkaError) else type(error).__name__)
                raise

    def fail(self, span: Any, error_type: str) -> None:
        """Mark a span as failed."""
        span.set_attribute("error.type", error_type)
        span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, error_type))

    def inject(self, headers: dict[str, str]) -> None:
        """Add the current context to the headers of a call."""
        self._propagate.inject(headers)

    def extract(self, headers: Mapping[str, str]) -> Any:
        """Return the context in a caller's headers."""
        return self._propagate.extract(headers)

    def with_context(self, headers: Pairs) -> list[tuple[str, bytes | None]]:
        """Return a record's headers with the current context, unless they contain one already."""
        if any(name == "traceparent" for name, _ in headers):
            return list(headers)
        carried: dict[str, str] = {}
        self._propagate.inject(carried)
        return [*headers, *((name, text.encode()) for name, text in carried.items())]


def context_of(headers: Pairs) -> Any:
    """Return the context in a record's headers, as a link or parent of the span that processes the record."""
    from opentelemetry import propagate

    return propagate.extract({name: value.decode("utf-8", "replace") for name, value in headers if value is not None})


class TracedTransport:
    """A client's transport with a span for each call (client/transport/base.py)."""

    def __init__(self, transport: Any, tracing: Tracing) -> None:
        self._transport, self._tracing = transport, tracing
        if hasattr(transport, "inject"):
            transport.inject = tracing.inject

    async def call(self, message: Any, response_type: type[R], timeout_s: float, *, client_id: str | None = None) -> R:
        """Implement Transport.call."""
        name, span_kind, attributes = describe(message)
        if client_id:
            attributes["messaging.client.id"] = client_id
        with self._tracing.span(name, span_kind, attributes):
            response: R = await self._transport.call(message, response_type, timeout_s, client_id=client_id)
            return response

    async def connect(self, timeout_s: float) -> None:
        """Implement Transport.connect."""
        await self._transport.connect(timeout_s)

    async def close(self) -> None:
        """Implement Transport.close."""
        await self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def describe(message: Any) -> tuple[str, str, dict[str, Any]]:
    """Return name, kind and attributes of a call's span."""
    api = type(message).__name__
    operation, span_kind = _OPERATIONS.get(
        api, ("commit" if api in _COMMITS else api.removesuffix("Request"), "CLIENT")
    )
    attributes: dict[str, Any] = {"messaging.system": "kafka", "messaging.operation.name": operation}
    if operation in ("send", "receive"):
        attributes["messaging.operation.type"] = operation
        topics = getattr(message, "topic_data" if operation == "send" else "topics", ())
        names = sorted({str(topic.name if operation == "send" else topic.topic) for topic in topics})
        if len(names) == 1:
            attributes["messaging.destination.name"] = names[0]
            return f"{operation} {names[0]}", span_kind, attributes
        attributes["messaging.batch.message_count"] = len(topics)
    group = getattr(message, "group_id", None)
    if group:
        attributes["messaging.consumer.group.name"] = str(group)
    return operation, span_kind, attributes


class TracedPort:
    """A port (Table, ObjectStore) with a span for each call."""

    def __init__(self, port: Any, port_name: str, tracing: Tracing) -> None:
        self._port, self._place, self._tracing = port, port_name, tracing

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)
        if not callable(method):
            return method
        return self._traced(name, method)

    def _traced(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        attributes = {"db.operation.name": name, "db.collection.name": self._place}

        async def call(*args: Any, **kwargs: Any) -> Any:
            with self._tracing.span(f"{name} {self._place}", "CLIENT", attributes):
                return await method(*args, **kwargs)

        return call


def traced_objects(objects: ObjectStore, tracing: Tracing) -> ObjectStore:
    """Return the object store with a span for each call."""
    return TracedPort(objects, "objects", tracing)


class TracedTables:
    """The tables of one store with a span for each call, also for transactions across them."""

    def __init__(self, tables: Tables, tracing: Tracing) -> None:
        self.log: Any = TracedPort(tables.log, "log", tracing)
        self.groups: Any = TracedPort(tables.groups, "groups", tracing)
        self.catalog: Any = TracedPort(tables.catalog, "catalog", tracing)
        self._across = TracedPort(tables, "tables", tracing)

    async def transact(self, operations: Sequence[TableOperation]) -> None:
        """Implement `Tables.transact`."""
        await self._across.transact(operations)
