"""OpenTelemetry spans go from a client's call through the function to the store, and are of one trace."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import odradek
import pytest
from odradek.aio import Admin, Consumer, Producer
from odradek.errors import KafkaError
from odradek.local.service import LocalService
from odradek.settings import Settings
from odradek.tracing import Tracing, context_of
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Spans of an application's provider; the global one of the process is put back."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    yield exporter
    provider.shutdown()


def by_name(spans: InMemorySpanExporter, name: str) -> ReadableSpan:
    named_spans = [span for span in spans.get_finished_spans() if span.name == name]
    assert named_spans, (name, sorted({span.name for span in spans.get_finished_spans()}))
    return named_spans[0]


def ids(span: ReadableSpan) -> tuple[int, int]:
    assert span.context is not None
    return span.context.trace_id, span.context.span_id


def children(spans: InMemorySpanExporter, of: ReadableSpan) -> list[ReadableSpan]:
    return [span for span in spans.get_finished_spans() if span.parent and span.parent.span_id == ids(of)[1]]


async def test_a_produce_a_fetch_and_a_commit(tmp_path: Path, spans: InMemorySpanExporter) -> None:
    async with LocalService(tmp_path, settings=Settings(tracing=True, maintenance_interval_ms=0)) as service:
        config: dict[str, Any] = {**service.client_config, "client_id": "shop"}
        async with Admin(**config) as admin:
            await admin.create_topics([odradek.NewTopic("flights", num_partitions=1)])
        async with Producer(**config, tracing=True, tracing_headers=True) as producer:
            with trace.get_tracer("app").start_as_current_span("order") as order:
                await producer.send_and_wait("flights", b"secret value", headers=[("h", b"1")])
        async with Consumer(**config, tracing=True, group_id="g", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["flights"])
            records_polled: list[Any] = []
            while not records_polled:
                records_polled = [record for records in (await consumer.poll(500)).values() for record in records]
            [record] = records_polled
            await consumer.commit()

    send = by_name(spans, "send flights")
    assert send.kind is SpanKind.PRODUCER
    assert dict(send.attributes or {}) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "flights",
        "messaging.client.id": "shop",
    }
    [function] = children(spans, send)
    assert (function.name, function.kind, ids(function)[0]) == ("PRODUCE", SpanKind.SERVER, ids(send)[0])
    stored = {span.name: span.kind for span in children(spans, function)}
    assert stored["put log"] is stored["update log"] is SpanKind.CLIENT, "a small request: an item, then the head"

    receive = by_name(spans, "receive flights")
    assert receive.kind is SpanKind.CONSUMER
    assert {span.name for span in children(spans, receive)} == {"FETCH"}
    commit = by_name(spans, "commit")
    assert (commit.attributes or {})["messaging.consumer.group.name"] == "g"
    assert {span.name for span in children(spans, commit)} == {"OFFSET_COMMIT"}

    carried = trace.get_current_span(context_of(record.headers)).get_span_context()
    assert (carried.trace_id, carried.span_id) == (order.get_span_context().trace_id, order.get_span_context().span_id)
    assert not any("secret" in str(span.attributes) for span in spans.get_finished_spans())


async def test_a_call_that_fails_marks_its_span(spans: InMemorySpanExporter) -> None:
    tracing = Tracing()
    with pytest.raises(KafkaError), tracing.span("call", "CLIENT", {}):
        raise KafkaError(odradek.ErrorCode.NOT_LEADER_OR_FOLLOWER)
    span = by_name(spans, "call")
    assert span.status.status_code is StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "NOT_LEADER_OR_FOLLOWER"


async def test_nothing_of_it_is_there_where_it_is_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither imported nor wrapped: a client and a service without the extra are as they were."""
    monkeypatch.setitem(sys.modules, "opentelemetry", None)  # an import fails
    async with LocalService(tmp_path, settings=Settings(maintenance_interval_ms=0)) as service:
        async with Admin(**service.client_config) as admin:
            await admin.create_topics([odradek.NewTopic("t", num_partitions=1)])
        async with Producer(**service.client_config) as producer:
            await producer.send_and_wait("t", b"x")
    with pytest.raises(KafkaError, match=r"pip install 'odradek\[otel\]'"):
        Producer(**service.client_config, tracing=True)
