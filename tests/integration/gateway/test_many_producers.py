"""Many stock idempotent producers of many partitions, whose requests a gateway merges into calls of its engine.

Their batches are more than one update of DynamoDB may compare. None of it shows: each record is there once, and those
of a producer are in order. aiokafka and Java's producer send the batches of many partitions in a request.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import aiokafka
import odradek
from odradek.settings import Settings

PARTITIONS, PRODUCERS, RECORDS = 24, 12, 3  # records of each producer to each partition
INTERVAL_MS = 400  # so that all of them meet


async def _produce(servers: str) -> None:
    producers = [
        aiokafka.AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True, linger_ms=50)
        for _ in range(PRODUCERS)
    ]
    try:
        await asyncio.gather(*(producer.start() for producer in producers))
        for number in range(RECORDS):
            sent = [
                await producer.send("t", b"%d %d" % (name, number), partition=partition)
                for name, producer in enumerate(producers)
                for partition in range(PARTITIONS)
            ]
            await asyncio.gather(*sent)
    finally:
        await asyncio.gather(*(producer.stop() for producer in producers))


def test_none_is_refused_and_each_record_is_there_once_and_in_order() -> None:
    settings = Settings(gateway_upload_interval_ms=INTERVAL_MS)
    with odradek.local(kafka_port=0, settings=settings, synchronous="NORMAL") as service:
        with odradek.Admin(**service.client_config) as admin:
            admin.create_topics([odradek.NewTopic("t", PARTITIONS)])
        asyncio.run(asyncio.wait_for(_produce(service.kafka_bootstrap_servers), 60))
        with odradek.Consumer(**service.client_config, auto_offset_reset="earliest") as consumer:
            tps = [odradek.TopicPartition("t", partition) for partition in range(PARTITIONS)]
            consumer.assign(tps)
            left = Counter(consumer.end_offsets(tps))
            assert set(left.values()) == {PRODUCERS * RECORDS}
            numbers_by_producer: dict[tuple[int, int], list[int]] = {}
            while left.total():
                for tp, records in consumer.poll(timeout_ms=1_000).items():
                    left[tp] -= len(records)
                    for record in records:
                        name, number = map(int, (record.value or b"").split())
                        numbers_by_producer.setdefault((tp.partition, name), []).append(number)
    assert len(numbers_by_producer) == PARTITIONS * PRODUCERS
    assert all(numbers == list(range(RECORDS)) for numbers in numbers_by_producer.values())
