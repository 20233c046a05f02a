"""Share group: a work queue over a topic. Each record is one member's until it is accepted, released or rejected.

Several members may read one partition, and one slow record holds up nothing. A record that fails five times, or is
rejected, goes to the dead-letter topic.
"""

from __future__ import annotations

import odradek
from odradek import AcknowledgeType


def main(**connection: str) -> None:
    with odradek.Admin(**connection) as admin:
        admin.create_topics([odradek.NewTopic("mails"), odradek.NewTopic("mails-dead")])
        admin.alter_group_configs(
            "mailer", {"share.auto.offset.reset": "earliest", "errors.deadletterqueue.topic.name": "mails-dead"}
        )
    with odradek.Producer(**connection) as producer:
        for address in (b"ada@example.com", b"busy@example.com", b"not an address", b"bob@example.com"):
            producer.send("mails", address)

    with odradek.ShareConsumer(**connection, group_id="mailer", share_acknowledgement_mode="explicit") as consumer:
        consumer.subscribe(["mails"])
        settled = 0
        while settled < 4:
            for records in consumer.poll(timeout_ms=1000).values():
                for record in records:
                    address = record.value or b""
                    if b"@" not in address:
                        consumer.acknowledge(record, AcknowledgeType.REJECT)  # to the dead letters
                    elif address.startswith(b"busy") and record.delivery_count == 1:
                        consumer.acknowledge(record, AcknowledgeType.RELEASE)  # again, to any member
                        continue
                    else:
                        print(f"delivered to {address.decode()} at attempt {record.delivery_count}")
                        consumer.acknowledge(record)
                    settled += 1
            consumer.commit_sync()

    with odradek.Consumer(**connection) as consumer:
        dead = odradek.TopicPartition("mails-dead", 0)
        consumer.assign([dead])
        consumer.seek_to_beginning(dead)
        print(f"dead letter: {(next(consumer).value or b'').decode()}")


if __name__ == "__main__":
    with odradek.local() as service:
        main(**service.client_config)
