"""A topic grows from 2 to 8 partitions under load: how many records does a group see after a later one of their key?

60 keys, 200 records each, written while two members of a group that takes a millisecond for a record lag behind.
The producers are ours, and confluent-kafka with Java's partitioner, whose metadata is a second old at most, or as old
as its default allows (five minutes: it never hears of the growth here). `hold 0` is a topic with
`odradek.growth.hold.ms=0`: groups get the new partitions at once, as they do in Apache Kafka.

    python -m bench.growth [--quick]
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.support.kafka import port
from tests.support.kafka.growing import grow_under_load, sdk_producer, stock_producer

RESULTS = Path(__file__).parent / "results" / "growth.json"
ROUNDS, QUICK_ROUNDS = 200, 40
CASES: dict[str, tuple[Any, dict[str, Any], dict[str, str]]] = {
    "ours": (sdk_producer, {}, {}),
    "ours, hold 0": (sdk_producer, {}, {"odradek.growth.hold.ms": "0"}),
    "stock, metadata of 1 s": (stock_producer, {"refresh_ms": 1_000}, {}),
    "stock, metadata of 1 s, hold 0": (stock_producer, {"refresh_ms": 1_000}, {"odradek.growth.hold.ms": "0"}),
    "stock, metadata of 5 min": (stock_producer, {}, {}),
}
GROUPS: dict[str, dict[str, Any]] = {
    "classic": {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 200},
    "consumer": {"group.protocol": "consumer"},
}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args(argv)
    results = []
    with port.kafka_service() as service:
        for number, (name, (producing, options, topic_configs)) in enumerate(CASES.items()):
            for protocol, config in GROUPS.items():
                growth = grow_under_load(
                    service,
                    f"orders-{number}-{protocol}",
                    producing,
                    rounds=QUICK_ROUNDS if arguments.quick else ROUNDS,
                    config=config,
                    topic_configs=topic_configs,
                    **options,
                )
                results.append({"producer": name, "group": protocol, **asdict(growth)})
    table = Table(title="records that were seen after a later one of their key")
    for heading in ("producer", "group", "records", "out of order", "in new partitions"):
        table.add_column(heading, justify="left" if heading in ("producer", "group") else "right")
    for result in results:
        counts = (result["seen"], result["out_of_order"], result["in_new_partitions"])
        table.add_row(str(result["producer"]), str(result["group"]), *(f"{count:,}" for count in counts))
    Console(width=120).print(table)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
