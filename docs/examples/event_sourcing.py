"""Event sourcing: the log is the truth, the state is a fold over it, and a decision holds only if its events are next.

Two tills sell from one stock of 10. Each reads the events, decides, and appends its decision on the condition that it
has seen every event. A writer that loses a race reads what it missed and decides again, so the stock is never negative.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import odradek

STOCK = odradek.TopicPartition("stock", 0)


@dataclass
class Till:
    """A stock as one till knows it: the events up to `next_offset`, folded."""

    connection: dict[str, str]
    left: int = 0
    next_offset: int = 0
    conflicts: int = 0
    sold: list[int] = field(default_factory=list)

    def run(self) -> None:
        with odradek.Consumer(**self.connection) as reader, odradek.Producer(**self.connection) as writer:
            reader.assign([STOCK])
            reader.seek_to_beginning(STOCK)
            while self.sell_one(reader, writer):
                pass

    def sell_one(self, reader: odradek.Consumer, writer: odradek.Producer) -> bool:
        """Sell one piece; False when there is none left."""
        end = reader.end_offsets([STOCK])[STOCK]
        while True:
            self.catch_up(reader, end)
            if self.left == 0:
                return False
            try:
                event = writer.send("stock", b"-1", partition=0, expected_offset=self.next_offset)
                self.sold.append(event.result(timeout=30).offset)
                return True
            except odradek.OffsetConflict as conflict:
                self.conflicts += 1
                end = conflict.actual_offset

    def catch_up(self, reader: odradek.Consumer, end: int) -> None:
        while self.next_offset < end:
            for records in reader.poll(timeout_ms=1000).values():
                for record in records:
                    self.left += int(record.value or b"0")
                    self.next_offset = record.offset + 1


def main(**connection: str) -> None:
    with odradek.Admin(**connection) as admin:
        admin.create_topics([odradek.NewTopic("stock")])
    with odradek.Producer(**connection) as producer:
        producer.send("stock", b"+10", partition=0)

    tills = [Till(connection), Till(connection)]
    threads = [threading.Thread(target=till.run) for till in tills]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    sold = [offset for till in tills for offset in till.sold]
    print(f"{len(sold)} pieces sold, {len(set(sold))} of them at an offset of their own")
    print(f"left by each till's account: {[till.left for till in tills]}")


if __name__ == "__main__":
    with odradek.local() as service:
        main(**service.client_config)
