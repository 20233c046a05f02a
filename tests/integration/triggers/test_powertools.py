"""Handlers that are written with AWS Lambda Powertools for MSK run unchanged."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.kafka_event import KafkaEvent, KafkaEventRecord
from aws_lambda_powertools.utilities.kafka import ConsumerRecords, SchemaConfig, kafka_consumer
from aws_lambda_powertools.utilities.parser.models import KafkaMskEventModel

from tests.support.services.triggered import Triggered


@pytest.fixture
async def triggered(tmp_path: Path) -> AsyncIterator[Triggered]:
    async with Triggered(tmp_path) as running:
        await running.topic("orders")
        yield running


async def test_the_kafka_consumer_deserializes_what_was_sent(triggered: Triggered) -> None:
    records_seen: list[Any] = []

    @kafka_consumer(schema_config=SchemaConfig(value_schema_type="JSON"))
    def handler(event: ConsumerRecords, context: Any) -> None:
        records_seen.extend(
            (record.key, record.value, record.headers, record.offset, record.timestamp_type) for record in event.records
        )

    triggered.answer = lambda event: handler(event, None)
    await triggered.create(starting_position="TRIM_HORIZON")
    headers = (("kind", b"new"), ("bytes", bytes(range(120, 140))))
    await triggered.send("orders", json.dumps({"id": 7}).encode(), key=b"ada", headers=headers)
    status = await triggered.drained()
    assert status.failures == 0, status.last_error
    [(key, value, decoded, offset, timestamp_type)] = records_seen
    assert (value, offset, timestamp_type) == ({"id": 7}, 0, "CREATE_TIME")
    assert key == "ada"
    assert {name: bytes(data) for name, data in decoded.items()} == dict(headers)


async def test_the_data_class_and_the_parser_read_the_event(triggered: Triggered) -> None:
    await triggered.create(starting_position="TRIM_HORIZON")
    await triggered.send("orders", b'{"id": 1}', b'{"id": 2}', key=b"k", headers=(("h", b"\xff\x00"),))
    await triggered.drained()
    [event] = triggered.events
    records = list(KafkaEvent(event).records)
    assert [(record.json_value["id"], record.decoded_key, record.decoded_headers["h"]) for record in records] == [
        (1, b"k", b"\xff\x00"),
        (2, b"k", b"\xff\x00"),
    ]
    parsed = KafkaMskEventModel.model_validate(event)
    assert [record.offset for record in parsed.records["orders-0"]] == [0, 1]


async def test_the_batch_processor_s_partial_response_is_honoured(triggered: Triggered) -> None:
    processor = BatchProcessor(event_type=EventType.Kafka)
    calls: list[int] = []
    failing = {2}

    def serve(record: KafkaEventRecord) -> None:
        calls.append(record.offset)
        if record.offset in failing:
            failing.remove(record.offset)
            raise ValueError("not yet")

    triggered.answer = lambda event: process_partial_response(
        event=event,
        record_handler=serve,
        processor=processor,
        context=None,  # type: ignore[arg-type]
    )
    await triggered.create(starting_position="TRIM_HORIZON")
    await triggered.send("orders", *(b"%d" % number for number in range(4)))
    await triggered.drained()
    assert calls == [0, 1, 2, 3, 2, 3]
