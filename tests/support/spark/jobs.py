"""Jobs as a scheduled run starts them, in the session of the tests, and a crash at the worst point of one."""

from __future__ import annotations

import threading
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tests.support.spark.sink import ServedLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Job:
    """One job with one checkpoint: each `run` goes on where the one before stopped."""

    def __init__(self, spark: SparkSession, log: ServedLog, job: ModuleType, folder: Path, **arguments: Any) -> None:
        self.checkpoint = folder / "checkpoint"
        self._spark, self._job = spark, job
        values = {
            "store": log.source["store"],
            "bootstrap_servers": log.bootstrap_servers,
            "checkpoint_location": str(self.checkpoint),
            "metrics": "none",
            **arguments,
        }
        options = job.Arguments.__dataclass_fields__
        self.arguments = job.Arguments(**({"once": True} if "once" in options else {}), **values)

    def run(self) -> dict[str, Any]:
        """To the end of what is there; the job's summary."""
        done: dict[str, Any] = self._job.run(self._spark, self.arguments, threading.Event())
        return done


def forget_last_commit(checkpoint: Path) -> int:
    """As if the driver had died after the sink's commit, before Spark noted it; the batch's number."""
    commits = checkpoint / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    for path in (commits / str(last), commits / f".{last}.crc"):
        path.unlink(missing_ok=True)
    return last


def has_run(checkpoint: Path, batch_id: int) -> bool:
    """Return True if Spark has noted the end of a micro-batch."""
    return (checkpoint / "commits" / str(batch_id)).exists()
