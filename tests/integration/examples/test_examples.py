"""The examples of the documentation run as they are, and print what docs/examples.md says that they print."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.spark.session import spark_environment

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "docs" / "examples"
PAGE = (ROOT / "docs" / "examples.md").read_text()
NEEDS_SPARK = {"spark_stream", "music_charts"}
IS_A_SERVICE = {"fastapi_service", "postgres_to_s3"}  # with tests of their own


def names() -> set[str]:
    return {path.stem for path in EXAMPLES.glob("*.py")}


def printed(name: str) -> list[str]:
    """Return the output of an example, as the page has it."""
    match = re.search(
        rf"literalinclude\}} examples/{name}\.py\n.*?```\n\nPrints:\n\n```text\n(.*?)```", PAGE, re.DOTALL
    )
    assert match, f"docs/examples.md does not show {name}"
    return match[1].splitlines()


@pytest.mark.parametrize("name", sorted(names() - NEEDS_SPARK - IS_A_SERVICE))
def test_an_example_prints_what_its_page_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(printed(name))  # share groups give no order


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(NEEDS_SPARK))
def test_an_example_of_spark_prints_what_its_page_says(name: str, tmp_path: Path) -> None:
    """Slow: a JVM and a streaming query."""
    command = [sys.executable, str(EXAMPLES / f"{name}.py")]
    environment = spark_environment()
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=600, check=False, cwd=tmp_path, env=environment
    )
    assert (done.returncode, done.stdout.splitlines()) == (0, printed(name)), done.stderr


def test_the_web_service_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.delenv("ODRADEK_BOOTSTRAP_SERVERS", raising=False)
    from fastapi.testclient import TestClient
    from fastapi_service import app

    with TestClient(app) as client:
        offsets = [client.post("/orders", json={"customer": "ada", "pieces": n}).json()["offset"] for n in (2, 3)]
        assert offsets == [0, 1]
        assert client.post("/orders", json={"customer": "ada"}).status_code == 422
        while client.get("/customers/ada").json()["pieces"] < 5:
            pass  # the view follows the log; pytest's timeout bounds the wait
        assert client.get("/customers/ada").json() == {"customer": "ada", "pieces": 5}


@pytest.mark.parametrize(
    ("name", "module", "packages"),
    [
        ("connect", "sqlalchemy", "odradek[local,connect]"),
        ("fastapi_service", "fastapi", "odradek[local], fastapi, uvicorn"),
        ("music_charts", "pyspark", "odradek[local,spark]"),
        ("postgres_to_s3", "psycopg", "odradek[local,connect]"),
        ("spark_stream", "pyspark", "odradek[local,spark]"),
        ("tables", "pyarrow", "odradek[local,table]"),
        ("trigger", "aws_lambda_powertools", "odradek[local], aws-lambda-powertools"),
    ],
)
def test_an_example_without_its_libraries_ends_in_one_sentence(
    name: str, module: str, packages: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for loaded in [name for name in sys.modules if name.split(".")[0] == module]:
        monkeypatch.setitem(sys.modules, loaded, None)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert str(ended.value).startswith(f"this program needs {packages} ({module}")
    assert "pip install 'odradek[local" in str(ended.value)
    section = PAGE[: PAGE.index(f"examples/{name}.py")].rpartition("\n## ")[2]
    assert "Needs " in section, "the page says it above the example"
    assert all(package in section for package in packages.split(", "))


def test_the_web_service_runs_as_a_program(tmp_path: Path) -> None:
    """It printed nothing and ended; now it says where it listens."""
    program = "import runpy, uvicorn; uvicorn.run = lambda app: print('served', app.title); "
    program += f"runpy.run_path({str(EXAMPLES / 'fastapi_service.py')!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "served FastAPI\n"), done.stderr


def test_the_page_shows_every_example() -> None:
    assert set(re.findall(r"literalinclude\} examples/(\w+)\.py", PAGE)) == names()
