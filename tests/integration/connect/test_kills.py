"""Workers as processes that are killed or stand still: each record of a source once, no row of a sink twice.

Slow: kills and pauses, and the group's session time-out after each of them.
"""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.support.connect.plugins import COUNTER
from tests.support.connect.running import RunningCluster
from tests.support.connect.worker_process import WorkerProcess
from tests.support.kafka.port import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

KILLS = int(os.environ.get("ODRADEK_CONNECT_KILLS", "6"))
TASKS = 2


def test_each_record_is_there_once_over_kills_and_pauses_of_workers(service: Any, tmp_path: Path) -> None:
    rng = random.Random(7)
    url = f"sqlite:///{tmp_path / 'rows.db'}"
    with RunningCluster(service, workers=0) as running:
        running.cluster.create(
            "source",
            {
                "connector.class": COUNTER, "topic": "numbers", "count": "1000000", "pause": "0.05",
                "tasks.max": str(TASKS), "topic.creation.default.partitions": "2",
            },
        )  # fmt: skip
        running.cluster.create(
            "rows",
            {
                "connector.class": "JdbcSink", "topics": "numbers", "connection.url": url, "auto.create": "true",
                "exactly.once": "true", "table.name.format": "rows", "tasks.max": str(TASKS),
            },
        )  # fmt: skip
        workers = [WorkerProcess(running, number, tmp_path) for number in range(2)]
        try:
            for kill in range(KILLS):
                until(lambda: is_settled(running, {each.name for each in workers}), 90, "all tasks run")
                time.sleep(rng.uniform(0.5, 2))
                name = worker_of_task_0(running)
                victim = next(index for index, each in enumerate(workers) if each.name == name)
                if kill % 2:
                    workers[victim].stand_still(
                        lambda name=name: until(lambda: worker_of_task_0(running) not in (name, ""), 90)
                    )
                else:
                    workers[victim].kill()
                    workers[victim] = WorkerProcess(running, kill + 2, tmp_path)
            until(lambda: is_settled(running, {each.name for each in workers}), 90, "all tasks run")
            time.sleep(2)  # for what a worker does that was replaced and does not know it
            running.cluster.set_target("source", "PAUSED")
            running.wait_states("source", "PAUSED", *["PAUSED"] * TASKS, timeout_s=90)
            ends = {each["partition"]["counter"]: each["offset"]["next"] for each in source_offsets(running)}
            total = sum(ends.values())
            records = running.read("numbers", total, timeout_s=120, more=True)
            until(lambda: rows(url) >= total, 120, "all rows")
        finally:
            for worker in workers:
                worker.kill()
    found = sorted((each["task"], each["n"]) for each in (json.loads(record.value) for record in records))
    assert found == [(task, n) for task, end in sorted(ends.items()) for n in range(end)]
    assert rows(url) == rows(url, "DISTINCT task || '-' || n") == total


def moved_from(running: RunningCluster, name: str) -> None:
    until(lambda: worker_of_task_0(running) not in (name, ""), 90, f"task 0 leaves {name}")


def source_offsets(running: RunningCluster) -> Any:
    return running.cluster.offsets("source")["offsets"]


def is_settled(running: RunningCluster, names: set[str]) -> bool:
    """Return True if all tasks run in live workers: the state of a killed one stays until another has its tasks."""
    tasks = running.cluster.status("source")["tasks"]
    return len(tasks) == TASKS and all(each["state"] == "RUNNING" and each["worker_id"] in names for each in tasks)


def worker_of_task_0(running: RunningCluster) -> str:
    """The worker of the first task, once it runs there."""
    task = running.cluster.task_status("source", 0)
    return str(task["worker_id"]) if task["state"] == "RUNNING" else ""


def rows(url: str, what: str = "*") -> int:
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        exists = sa.inspect(connection).has_table("rows")
        found = connection.execute(sa.text(f"SELECT count({what}) FROM rows")).scalar() if exists else 0
    engine.dispose()
    return int(found or 0)
