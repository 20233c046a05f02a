"""How long until a group has settled, and what does it cost to keep? 24 members over 96 partitions.

The members are consumers of the SDK in one process against an embedded service in another, over HTTP as on AWS. Then a
quarter of them leaves, and as many join again. Dollars are what the calls would have cost on AWS by the service's
meter; a settled group is measured for a while and counted up to an hour.

    python -m bench.groups [--quick]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
import urllib.request
from pathlib import Path
from typing import Any

import odradek
from odradek import aio
from odradek.cost.prices import US_EAST_1, cost
from rich.console import Console
from rich.table import Table

from bench.throughput import Service, started

RESULTS = Path(__file__).parent / "results" / "groups.json"
MEMBERS, PARTITIONS = 24, 96
TOPIC, GROUP = "wide", "settling"


class Members:
    """Consumers of one group that poll until they are closed."""

    def __init__(self, service: Service) -> None:
        self._config = {**service.client_config, "group_id": GROUP, "auto_offset_reset": "latest"}
        self._running: list[tuple[aio.Consumer, asyncio.Task[None]]] = []

    async def add(self, count: int) -> None:
        for _ in range(count):
            consumer = aio.Consumer(**self._config)
            consumer.subscribe([TOPIC])
            self._running.append((consumer, asyncio.create_task(self._poll(consumer))))

    async def _poll(self, consumer: aio.Consumer) -> None:
        while True:
            await consumer.poll(timeout_ms=1_000)

    async def remove(self, count: int) -> None:
        """The first ones leave in order."""
        leaving, self._running = self._running[:count], self._running[count:]
        for _, task in leaving:
            task.cancel()
        await asyncio.gather(*(task for _, task in leaving), return_exceptions=True)
        await asyncio.gather(*(consumer.close() for consumer, _ in leaving))

    def share(self) -> list[int]:
        """How many partitions each has."""
        return [len(consumer.assignment()) for consumer, _ in self._running]

    async def settled(self, within_s: float = 120) -> float:
        """Seconds until every partition has one owner and nobody more than one more than another."""
        began = time.perf_counter()
        while time.perf_counter() - began < within_s:
            for _, task in self._running:
                if task.done():
                    task.result()
            shares = self.share()
            owned = [tp for consumer, _ in self._running for tp in consumer.assignment()]
            if len(set(owned)) == len(owned) == PARTITIONS and max(shares) - min(shares) <= 1:
                return time.perf_counter() - began
            await asyncio.sleep(0.01)
        raise TimeoutError(f"not settled within {within_s} s: {self.share()}")


def heartbeats(service: Service) -> int:
    """ConsumerGroupHeartbeat requests so far, by the service's own count."""
    with urllib.request.urlopen(f"{service.client_config['bootstrap_servers']}/metrics") as response:
        lines = response.read().decode().splitlines()
    counted = [line for line in lines if line.startswith("odradek_requests_total{") and "GROUP_HEARTBEAT" in line]
    return sum(int(line.rpartition(" ")[2]) for line in counted)


async def measure(service: Service, members: int, quiet_s: float) -> list[dict[str, Any]]:
    """One row a phase."""
    group, rows = Members(service), []

    async def phase(name: str, change: Any, wait_s: float = 0.0) -> None:
        before_usage = await asyncio.to_thread(service.usage)
        before_beats = await asyncio.to_thread(heartbeats, service)
        began = time.perf_counter()
        await change
        settled_s = await group.settled()
        await asyncio.sleep(wait_s)
        beats = await asyncio.to_thread(heartbeats, service) - before_beats
        used = await asyncio.to_thread(service.usage) - before_usage
        lasted_s = time.perf_counter() - began  # the meter was read a moment after
        dollars = cost(used, US_EAST_1).total
        rows.append(
            {
                "phase": name,
                "members": len(group.share()),
                "settled_s": round(settled_s, 2),
                "heartbeats": beats,
                "requests": int(used.function_requests),
                "write_units": round(used.table_write_units, 1),
                "read_units": round(used.table_read_units, 1),
                "dollars_per_hour": round(dollars / lasted_s * 3600, 4) if wait_s else None,
                "dollars": round(dollars, 6),
            }
        )

    await phase(f"{members} join", group.add(members))
    await phase(f"{members // 4} leave", group.remove(members // 4))
    await phase(f"{members // 4} join", group.add(members // 4))
    await phase(f"settled, idle for {quiet_s:.0f} s", asyncio.sleep(0), quiet_s)
    await group.remove(len(group.share()))
    return rows


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quiet_s = 10.0 if parser.parse_args(argv).quick else 60.0
    with started() as service:
        with odradek.Admin(**service.client_config) as admin:
            admin.create_topics([odradek.NewTopic(TOPIC, num_partitions=PARTITIONS)])
        rows = asyncio.run(measure(service, MEMBERS, quiet_s))
    columns = ("settled after", "heartbeats", "requests", "write units", "read units", "$", "$ an hour")
    table = Table("", "members", *columns, title=f"{MEMBERS} members over {PARTITIONS} partitions, embedded store")
    for row in rows:
        hourly = "" if row["dollars_per_hour"] is None else f"{row['dollars_per_hour']:.4f}"
        counts = (str(row[name]) for name in ("heartbeats", "requests", "write_units", "read_units"))
        table.add_row(
            row["phase"], str(row["members"]), f"{row['settled_s']:.2f} s", *counts, f"{row['dollars']:.6f}", hourly
        )
    Console(width=120).print(table)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(rows, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
