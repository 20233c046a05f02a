"""The clients for asyncio: the same methods, awaited. A producer and a consumer in one program."""

from __future__ import annotations

import asyncio

import odradek
import odradek.aio


async def produce(**connection: str) -> None:
    async with odradek.aio.Producer(**connection) as producer:
        for number in range(100):
            await producer.send("readings", b"%d" % number)  # waits for room, not for the outcome


async def consume(**connection: str) -> int:
    total = seen = 0
    async with odradek.aio.Consumer(**connection, group_id="sums", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["readings"])
        async for record in consumer:
            total += int(record.value or b"0")
            seen += 1
            if seen == 100:
                return total
    return total


async def run(**connection: str) -> None:
    async with odradek.aio.Admin(**connection) as admin:
        await admin.create_topics([odradek.NewTopic("readings", num_partitions=2)])
    _, total = await asyncio.gather(produce(**connection), consume(**connection))
    print(f"sum of 100 readings: {total}")


def main(**connection: str) -> None:
    asyncio.run(run(**connection))


if __name__ == "__main__":
    with odradek.local() as service:
        main(**service.client_config)
