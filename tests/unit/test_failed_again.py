"""tools/failed_again.py: what only failed beside others is excused, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import failed_again

ONCE = """
from pathlib import Path

def test_fails_once():
    first = not Path("was_here").exists()
    Path("was_here").touch()
    assert not first

def test_passes():
    assert True
"""
ALWAYS = "def test_fails():\n    assert False\n"
MANY = "import pytest\n\n@pytest.mark.parametrize('n', range(6))\ndef test_fails(n):\n    assert False\n"


@pytest.mark.parametrize(
    ("tests", "code", "said"),
    [(ONCE, 0, "test_fails_once"), (ALWAYS, 1, "test_fails"), (MANY, 1, "6 tests failed"), ("", 1, "without saying")],
)
def test_a_failed_test_is_asked_once_more(
    tests: str,
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "test_them.py").write_text(tests)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.chdir(tmp_path)
    subprocess.run([sys.executable, "-m", "pytest", "-q", "-n", "0"], check=False, capture_output=True)
    assert failed_again.main(["-q"]) == code
    assert said in capsys.readouterr().out
