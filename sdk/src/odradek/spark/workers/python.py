"""The Python that Spark's workers run: the driver's, or one that has no odradek.

Spark starts `PYSPARK_PYTHON`, or the first `python3` on the PATH: where a program of a virtual environment is started
without activating it, that is another one. Spark then answers forty lines that end in "No module named 'odradek'".
On a cluster the workers are elsewhere, and Spark's answer is all there is (odradek.spark.jobs.run.reason).
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

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_ODRADEK = "No module named 'odradek'"
_PATIENCE_S = 120


def check_workers(spark: SparkSession) -> None:
    """Look whether the workers of a Spark on this machine can import the source.

    Raises KafkaError(INVALID_CONFIG) that says what to set.
    """
    from pyspark.errors import PySparkException

    try:
        context = spark.sparkContext
    except (AttributeError, PySparkException):  # Spark Connect has none: its workers are elsewhere
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
    """One line: whose workers lack what, and what to set."""
    return (
        f"Spark's Python workers run {program}, {lacks}: activate the environment of odradek, or set "
        f"PYSPARK_PYTHON={sys.executable} before the session is made"
    )


@cache
def missing(program: str) -> str:
    """What keeps a Python from reading the source; empty where nothing does."""
    found = shutil.which(program)
    if found is None:
        return "which is not there"
    if Path(found).absolute() == Path(sys.executable).absolute():
        return ""
    try:
        done = subprocess.run(
            [found, "-c", "import odradek.spark.source.data_source"],
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
