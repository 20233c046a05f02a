"""Read one record by its offset: a fetch of its batch, without an assignment."""

from __future__ import annotations

from odradek.client.config import ConsumerConfig
from odradek.client.connection import Connection
from odradek.client.consumer.record import ConsumerRecord, RecordDeserializationError
from odradek.client.messages.fetch import FetchResponse, fetch_request, fetched
from odradek.errors import ErrorCode, FormatError, KafkaError
from odradek.format.record_batch import iter_headers
from odradek.format.record_decoder import iter_rows
from odradek.model.topic_partition import TopicPartition


async def read_record(
    connection: Connection, config: ConsumerConfig, tp: TopicPartition, offset: int
) -> ConsumerRecord | None:
    """Implement Consumer.read_at."""

    def check(response: FetchResponse) -> None:
        for part in fetched(response):
            if part.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                raise KafkaError(
                    part.error, f"{tp} has no record at offset {offset}: the log begins after it or ends before it"
                )
            if part.error is not ErrorCode.NONE:
                raise KafkaError(part.error, f"reading {tp} at offset {offset}: {part.error.name}")
            if offset >= part.high_watermark:
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"{tp} ends at offset {part.high_watermark}: offset {offset} is not written yet",
                )

    response = await connection.call(
        fetch_request([(tp, offset)], config, waits=False), FetchResponse, f"reading {tp}", check=check
    )
    for part in fetched(response):
        try:
            return _find(tp, part.records, offset, config)
        except FormatError as error:
            raise KafkaError(error.code, f"{tp} at offset {offset}: {error}") from error
    return None


def _find(tp: TopicPartition, data: bytes, offset: int, config: ConsumerConfig) -> ConsumerRecord | None:
    for at, header in iter_headers(data):
        if header.is_control or not header.base_offset <= offset < header.next_offset:
            continue
        for record_offset, timestamp_ms, key, value, headers in iter_rows(
            data, at, header, verify_crc=config.check_crcs
        ):
            if record_offset == offset:
                try:
                    shown_key = key if config.key_deserializer is None else config.key_deserializer(key)
                    shown_value = value if config.value_deserializer is None else config.value_deserializer(value)
                except Exception as error:
                    raise RecordDeserializationError(tp, offset, error) from error
                return ConsumerRecord(*tp, offset, timestamp_ms, header.timestamp_type, shown_key, shown_value, headers)
    return None
