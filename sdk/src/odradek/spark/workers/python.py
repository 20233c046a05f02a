"""The Python of Spark's workers: the driver's, or one without odradek.

Spark starts `PYSPARK_PYTHON`, or the first `python3` on the PATH, which is another Python if a virtual environment is
used without activating it. Spark then prints forty lines that end in "No module named 'odradek'". On a cluster the
workers are elsewhere, and only Spark's error is available (odradek.spark.jobs.run.reason).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.errors import ErrorCode, KafkaError
from odradek.spark.workers.fork_server import is_launched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_ODRADEK = "No module named 'odradek'"
_PATIENCE_S = 120


def check_workers(spark: SparkSession) -> None:
    """Check that the workers of a Spark on this machine can import the source.

    Raises KafkaError(INVALID_CONFIG) that says what to set.
    """
    from pyspark.errors import PySparkException

    try:
        context = spark.sparkContext
    except (AttributeError, PySparkException):  # Spark Connect: its workers are elsewhere
        return
    if not str(context.master).startswith("local"):
        return
    environ = os.environ
    planner = environ.get("PYSPARK_DRIVER_PYTHON") or environ.get("PYSPARK_PYTHON") or "python3"
    for program in sorted({str(context.pythonExec), planner}):
        lacks = missing(program)
        if lacks:
            raise KafkaError(ErrorCode.INVALID_CONFIG, workers_lack(program, lacks))


def workers_lack(program: str, lacks: str) -> str:
    """Return one line that names the program, what it lacks, and what to set."""
    return (
        f"Spark's Python workers run {program}, {lacks}: activate the environment of odradek, or set "
        f"PYSPARK_PYTHON={sys.executable} before the session is created"
    )


@cache
def missing(program: str) -> str:
    """Return what keeps a Python from importing the source, as a clause; empty if nothing does."""
    executable = shutil.which(program)
    if executable is None:
        return "which does not exist"
    if Path(executable).absolute() == Path(sys.executable).absolute() or is_launched(executable):
        return ""
    try:
        done = subprocess.run(
            [executable, "-c", "import odradek.spark.source.data_source"],
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"which does not run ({error})"
    if done.returncode == 0:
        return ""
    said = (done.stderr.strip().splitlines() or [""])[-1]
    return "which has no odradek" if NO_ODRADEK in said else f"which cannot import it ({said})"
