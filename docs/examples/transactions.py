"""Transactions: read, transform, write, and commit the input's offsets in one step, exactly once.

If the program dies anywhere in the block, neither its records nor its offsets are visible, and the next run repeats it.
"""

from __future__ import annotations

import odradek


def main(**connection: str) -> None:
    with odradek.Admin(**connection) as admin:
        admin.create_topics([odradek.NewTopic("words"), odradek.NewTopic("shouted")])
    with odradek.Producer(**connection) as producer:
        for word in (b"read", b"process", b"write"):
            producer.send("words", word)

    with (
        odradek.Consumer(
            **connection, group_id="shouter", auto_offset_reset="earliest", enable_auto_commit=False
        ) as consumer,
        odradek.Producer(**connection, transactional_id="shouter-1") as producer,
    ):
        producer.init_transactions()  # fences an older instance with this id
        consumer.subscribe(["words"])
        done = 0
        while done < 3:
            records = [record for batch in consumer.poll(timeout_ms=1000).values() for record in batch]
            if not records:
                continue
            with producer.transaction():  # commits at the end, aborts if the block raises
                for record in records:
                    producer.send("shouted", (record.value or b"").upper(), key=record.key)
                ends = {record.topic_partition: record.offset + 1 for record in records}
                producer.send_offsets_to_transaction(ends, consumer.group_metadata())
            done += len(records)

        try:
            with producer.transaction():
                producer.send("shouted", b"NEVER SEEN")
                raise RuntimeError("a failure inside the transaction")
        except RuntimeError as error:
            print(f"aborted: {error}")

    with odradek.Consumer(**connection, auto_offset_reset="earliest") as consumer:
        consumer.assign([odradek.TopicPartition("shouted", 0)])
        print([record.value for records in consumer.poll(timeout_ms=5000).values() for record in records])


if __name__ == "__main__":
    with odradek.local() as service:
        main(**service.client_config)
