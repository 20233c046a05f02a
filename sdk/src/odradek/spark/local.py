"""A local Spark: the environment of a driver whose Python workers start fast.

Spark waits ten seconds for the first response of the process that drives a Python source, and it puts a zipped pyspark
in front of the installed one. A zip has no bytecode, so every worker compiles thousands of lines again: some seconds,
which on a busy machine are more than ten. SPARK_HOME is therefore a folder of links to all of the installed pyspark
except that zip, and bytecode is cached in our folder, whatever the environment says about writing it. Then workers are
forks of a process that has imported everything (workers/fork_server.py).
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from odradek.extras import MissingExtra
from odradek.spark.workers.fork_server import ForkServer

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # A busy machine must not look like a dead executor.
    "spark.executor.heartbeatInterval": "60s",
    "spark.network.timeout": "600s",
    # Spark's default for local files runs the program readlink some fifty times in a micro-batch.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # Each is a file more; Hadoop's local files have checksums of their own.
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
}
_LEFT_OUT = "python"  # holds lib/pyspark.zip


def local_environment(
    folder: Path, environ: Mapping[str, str], *, cores: int = 2, driver_memory: str = "1g"
) -> dict[str, str]:
    """Return the environment for a process that creates a session.

    Args:
        folder: for the links and the bytecode; kept between runs.
        environ: the environment to extend.

    Raises:
        KafkaError: INVALID_CONFIG if pyspark is not installed.
    """
    conf = [word for name, value in _SETTINGS.items() for word in ("--conf", f"{name}={value}")]
    submit = ["--master", f"local[{cores}]", "--driver-memory", driver_memory, *conf, "pyspark-shell"]
    environment = {name: value for name, value in environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return environment | {
        "SPARK_HOME": str(_link_spark(folder / "spark")),
        "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": " ".join(submit),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def warm_workers(environment: Mapping[str, str]) -> dict[str, str]:
    """Start a process that forks Spark's Python workers, until this one ends; return the environment with it."""
    server = ForkServer(environment)
    atexit.register(server.close)
    return server.environment


def _link_spark(home: Path) -> Path:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise MissingExtra("spark")
    installed = Path(spec.origin).parent
    home.mkdir(parents=True, exist_ok=True)
    for entry in installed.iterdir():
        link = home / entry.name
        if not entry.is_dir() or entry.name in (_LEFT_OUT, "__pycache__") or _points_to(link, entry):
            continue
        fresh = home / f".{entry.name}.{os.getpid()}"
        fresh.symlink_to(entry)
        fresh.replace(link)  # another process may be creating the same link
    return home


def _points_to(link: Path, target: Path) -> bool:
    return link.is_symlink() and Path(os.readlink(link)) == target
