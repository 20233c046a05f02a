"""`odradek jobs`: every folder of glue_jobs/ is installed, described, and says what its arguments are."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
from odradek.cli import run
from odradek.operations.jobs.installed import GROUP, description, installed
from odradek.spark.jobs.arguments import parse_arguments
from odradek.spark.jobs.field_comments import comments_in, field_comments

ROOT = Path(__file__).parents[3]
JOBS = sorted(path.parent.name for path in (ROOT / "glue_jobs").glob("*/job.py"))


def test_every_job_is_an_entry_point_of_a_distribution() -> None:
    projects = [
        tomllib.loads((ROOT / "sdk" / name / "pyproject.toml").read_text())["project"] for name in ("spark", "sql")
    ]
    declared = projects[0]["entry-points"][GROUP] | projects[1]["entry-points"][GROUP]
    assert declared == {name: f"odradek.glue_jobs.{name}.job:main" for name in JOBS}
    assert sorted(installed()) == JOBS


def test_jobs_are_listed_with_what_they_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["jobs", "list"]) == 0
    printed = capsys.readouterr().out
    assert "word_count           counts the occurrences of each word in a topic" in printed
    assert run(["jobs", "list", "--output", "json"]) == 0
    assert [job["job"] for job in json.loads(capsys.readouterr().out)] == JOBS
    assert all(description(module) for module in installed().values())


def test_a_package_of_the_user_does_not_hide_the_jobs(tmp_path: Path) -> None:
    (tmp_path / "glue_jobs").mkdir()
    (tmp_path / "glue_jobs" / "__init__.py").touch()
    listed = subprocess.run(
        [sys.executable, "-m", "odradek.cli", "jobs", "list", "--output", "json"],
        env=os.environ | {"PYTHONPATH": str(tmp_path)}, cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert listed.returncode == 0, listed.stderr
    assert [job["job"] for job in json.loads(listed.stdout) if not job["what_it_does"]] == []


def test_a_job_that_is_not_there_is_told_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["jobs", "run", "word-cuont"]) == 2
    assert "unknown job 'word-cuont': did you mean word_count?" in capsys.readouterr().err


def test_the_command_passes_help_on_to_the_job(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyspark")
    with pytest.raises(SystemExit) as ended:
        run(["jobs", "run", "word-count", "--help"])
    assert ended.value.code == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.startswith("usage: word_count --checkpoint_location CHECKPOINT_LOCATION --input_topic INPUT_TOPIC")
    assert "--input_topic [TEXT] topic to read" in printed
    assert "maximum number of records of a micro-batch (default: 200000)" in printed
    assert run(["jobs", "run", "--help"]) == 0


@pytest.mark.parametrize("name", JOBS)
def test_help_describes_every_argument_with_its_default(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyspark")
    arguments = importlib.import_module(f"odradek.glue_jobs.{name}.job").Arguments
    comments = field_comments(arguments)
    assert [spec.name for spec in fields(arguments) if not comments.get(spec.name)] == []
    with pytest.raises(SystemExit):
        parse_arguments(arguments, ["--help"], prog=name)
    printed = " ".join(capsys.readouterr().out.split())
    for spec in fields(arguments):
        assert f"--{spec.name} [" in printed


def test_a_comment_is_beside_its_field_or_above_it() -> None:
    source = '''
class Settings:
    """One."""

    a: int = 1  # beside
    # above,
    # in two lines
    b: int = 2
    c: dict[str, int] = field(
        default_factory=dict,
    )  # at its end
    d: str = "# no comment"
    # beside wins
    e: int = 5  # over this
'''
    assert comments_in(source) == {"a": "beside", "b": "above, in two lines", "c": "at its end", "e": "over this"}
