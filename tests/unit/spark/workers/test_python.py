"""A worker's Python without odradek is told in one line, which says what to set."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from odradek.errors import KafkaError
from odradek.spark.jobs.run import reason
from odradek.spark.workers.python import check_workers, missing


def session(program: str, master: str = "local[1]") -> Any:
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master, pythonExec=program))


@pytest.fixture
def bare(tmp_path: Path) -> str:
    """A Python without site-packages: the system's, as Spark finds it where no environment is active."""
    program = tmp_path / "python3"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    program.chmod(0o755)
    return str(program)


def test_the_drivers_own_python_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setattr("subprocess.run", lambda *_, **__: pytest.fail("asked"))
    check_workers(session(sys.executable))


def test_a_python_without_odradek_is_one_line(bare: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    with pytest.raises(KafkaError) as refused:
        check_workers(session(bare))
    said = str(refused.value)
    assert said.startswith(f"INVALID_CONFIG: Spark's Python workers run {bare}, which has no odradek: ")
    assert f"set PYSPARK_PYTHON={sys.executable} before the session is created" in said
    assert "\n" not in said
    assert missing("/no/such/python") == "which does not exist"


def test_workers_elsewhere_are_not_looked_at(bare: str) -> None:
    check_workers(session(bare, "yarn"))
    check_workers(SimpleNamespace())  # type: ignore[arg-type]


def test_a_job_says_it_of_what_spark_answers() -> None:
    text = "[PYTHON_DATA_SOURCE_ERROR] Traceback ...\n" * 40 + "ModuleNotFoundError: No module named 'odradek'\n"
    assert "which has no odradek: activate the environment" in reason(RuntimeError(text))
    assert "\n" not in reason(RuntimeError(text))
