"""Tables: send and receive Arrow tables by columns, several times as fast as record by record.

Needs `odradek[local,table]` (or `fast`, the same compiled). pandas, Polars and DuckDB read and give Arrow tables.
"""

from __future__ import annotations

import odradek
from odradek.extras import program_needs

with program_needs("odradek[local,table]"):
    import pyarrow as pa
    import pyarrow.compute as pc


def main(**connection: str) -> None:
    with odradek.Admin(**connection) as admin:
        admin.create_topics([odradek.NewTopic("flights", num_partitions=2)])

    count = 10_000
    flights = pa.table(
        {
            "tail": [f"N{number % 50:05}" for number in range(count)],
            "delay": [str(number % 60) for number in range(count)],
        }
    )
    with odradek.Producer(**connection, compression_type="lz4") as producer:
        written = producer.send_table("flights", flights, key="tail", value="delay").result(timeout=60)
        print(f"{written.row_count} rows in {len(written.counts)} partitions")

    with odradek.Consumer(**connection, auto_offset_reset="earliest") as consumer:
        consumer.assign([odradek.TopicPartition("flights", partition) for partition in range(2)])
        parts: list[pa.Table] = []
        while sum(part.num_rows for part in parts) < count:
            parts.append(consumer.poll_table(1000, columns=["key", "value"]))
        received = pa.concat_tables(parts)
        delays = pc.cast(pc.cast(received["value"], pa.string()), pa.int64())
        print(f"mean delay of {received.num_rows} flights: {pc.mean(delays).as_py():.1f} minutes")


if __name__ == "__main__":
    with odradek.local() as service:
        main(**service.client_config)
