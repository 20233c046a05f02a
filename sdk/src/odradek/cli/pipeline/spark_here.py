"""The environment of a local Spark, for the commands that start one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from odradek.errors import ErrorCode, KafkaError


def prepare_spark() -> None:
    """Set the environment of the JVM and the workers. Raises KafkaError(INVALID_CONFIG) if there is no Java."""
    from odradek.spark.local import local_environment, warm_workers

    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, "Spark needs Java 17: install it and add java to PATH, or set JAVA_HOME"
        )
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "odradek")
    os.environ.update(warm_workers(local_environment(folder, os.environ)))
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
