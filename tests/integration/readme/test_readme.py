"""The examples of README and quick start run as they are, and the commands that they name exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_example_runs() -> None:
    [example] = blocks("python")
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, timeout=240, check=False)
    assert (done.returncode, done.stdout) == (0, "1000 orders\n"), done.stderr


def test_the_quick_start_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "quickstart.md").read_text()
    example = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    done = subprocess.run(
        [sys.executable, "-c", example], capture_output=True, text=True, timeout=240, check=False, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (0, "0 0\nb'alice' b'1 book'\n"), done.stderr


def test_the_documents_it_names_exist() -> None:
    for name in re.findall(r"docs/[A-Z]+\.md|docs/formats|docs/decisions|CHANGELOG\.md", README):
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize("target", ["demo", "test", "help", "synth", "deploy", "bench"])
def test_the_make_targets_it_names_exist(target: str) -> None:
    assert f"make {target}" in README
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
