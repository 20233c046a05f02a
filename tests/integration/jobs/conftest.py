"""One Spark session, and one embedded service, for the tests of jobs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.spark.session import spark
from tests.support.spark.sink import ServedLog

__all__ = ["spark"]


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedLog]:
    folder: Path = tmp_path_factory.mktemp("jobs") / "store"
    with ServedLog(folder) as log:
        yield log
