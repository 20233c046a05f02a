"""Produce: keys, headers, compression, and the outcome of each record.

`send` queues a record and returns a future; batches go out in the background. Leaving the `with` block flushes.
"""

from __future__ import annotations

import odradek


def main(**connection: str) -> None:
    with odradek.Admin(**connection) as admin:
        admin.create_topics([odradek.NewTopic("orders", num_partitions=3, configs={"retention.ms": "604800000"})])

    with odradek.Producer(**connection, compression_type="zstd", linger_ms=50) as producer:
        future = producer.send("orders", key=b"alice", value=b"1 book", headers={"source": b"web"})
        metadata = future.result(timeout=30)  # waits until the record is durable
        print(f"first record: offset {metadata.offset} of {metadata.topic}")

        futures = [producer.send("orders", key=b"customer-%d" % (n % 7), value=b"order %d" % n) for n in range(999)]
        producer.flush()  # raises if a record failed and nobody looked at its future
        print(f"{sum(future.done() for future in futures)} more records are durable")

        try:
            producer.send("no-such-topic", b"lost", partition=0)
        except odradek.KafkaError as error:
            print(f"refused: {error.code.name}")


if __name__ == "__main__":
    with odradek.local() as service:
        main(**service.client_config)
