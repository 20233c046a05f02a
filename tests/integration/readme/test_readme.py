"""The examples of README and quick start run as they are, and the commands that they name exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import odradek
import pytest

from tests.support.counted import at_least

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()
QUICK_START = (ROOT / "docs" / "quickstart.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def ran(example: str, folder: Path) -> str:
    """Run a program in a folder, and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", example], capture_output=True, text=True, timeout=240, check=False, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_runs_twice(tmp_path: Path) -> None:
    [example] = blocks("python")
    assert [ran(example, tmp_path) for _ in range(2)] == ["1000 orders\n"] * 2


def test_the_quick_start_runs_twice(tmp_path: Path) -> None:
    """Its folder is kept, so the second run finds the topic, the record and the group of the first."""
    example, _ = re.findall(r"```python\n(.*?)```", QUICK_START, re.DOTALL)
    assert ran(example, tmp_path) == "0 0\nb'alice' b'1 book'\n"
    assert ran(example, tmp_path) == "0 1\nb'alice' b'1 book'\n"


def test_the_quick_start_of_a_kafka_client_delivers_and_says_if_it_does_not(tmp_path: Path) -> None:
    _, example = re.findall(r"```python\n(.*?)```", QUICK_START, re.DOTALL)
    with odradek.local(tmp_path / "data", kafka_port=0) as service:  # type: ignore[operator]
        adapted = example.replace("127.0.0.1:9092", service.kafka_bootstrap_servers)
        assert adapted != example
        missing = adapted.replace('"bootstrap.servers"', '"message.timeout.ms": 2000, "bootstrap.servers"')
        assert "KafkaError" in ran(missing, tmp_path), "a record that is lost is told"
        with odradek.Admin(**service.client_config) as admin:
            admin.create_topics(["orders"])
        assert [ran(adapted, tmp_path) for _ in range(2)] == ["delivered\n"] * 2


def test_the_documents_it_names_exist() -> None:
    names = re.findall(r"docs/[A-Z]+\.md|docs/formats|docs/decisions|CHANGELOG\.md", README)
    for name in at_least(3, names):
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize("target", ["demo", "test", "help", "synth", "deploy", "bench"])
def test_the_make_targets_it_names_exist(target: str) -> None:
    assert f"make {target}" in README
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
