"""Consume: a group that commits after its work. No record is lost; a crash repeats records since the last commit."""

from __future__ import annotations

import odradek


def main(**connection: str) -> None:
    with odradek.Admin(**connection) as admin:
        admin.create_topics([odradek.NewTopic("orders", num_partitions=3)])
    with odradek.Producer(**connection) as producer:
        for number in range(300):
            producer.send("orders", key=b"customer-%d" % (number % 7), value=b"order %d" % number)

    with odradek.Consumer(
        **connection, group_id="billing", auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        consumer.subscribe(["orders"])
        billed = 0
        while billed < 300:
            for records in consumer.poll(timeout_ms=1000).values():
                billed += len(records)  # the work
            consumer.commit()  # after the work: a crash before this line repeats it
        print(f"{billed} orders billed, lag {sum(lag or 0 for lag in consumer.lag().values())}")

    with odradek.Consumer(**connection, group_id="billing") as consumer:
        partitions = [odradek.TopicPartition("orders", partition) for partition in range(3)]
        committed = consumer.committed(partitions)
        print(f"committed: {sum(each.offset for each in committed.values() if each)}")

        # Without a group: read what one wants, from where one wants.
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        first = next(consumer)
        print(f"read again: {first.value!r} at offset {first.offset}")


if __name__ == "__main__":
    with odradek.local() as service:
        main(**service.client_config)
