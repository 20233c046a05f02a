"""`pip install odradek`, bare and with each extra, in environments made of the wheels alone.

Every public name imports, every command has its help, and a feature whose extra is missing says so in one line.
Slow: each environment is installed from the package index.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.integration.package.conftest import Install
from tools.package import ROOT

pytestmark = pytest.mark.slow

EXTRAS = tuple(tomllib.loads((ROOT / "sdk" / "pyproject.toml").read_text())["project"]["optional-dependencies"])
README = (ROOT / "README.md").read_text()

# A feature, and the extra that it needs.
FEATURES = {
    "import odradek; odradek.local()": "local",
    "import odradek; odradek.local.start_local()": "local",
    "import odradek; odradek.query": "cli",
    "from odradek.columnar.engine import uses_numba; uses_numba('numba')": "fast",
    "from odradek.client.serializers import AvroSerializer; AvroSerializer(None, '{}')": "avro",
    "from odradek.tracing import Tracing; Tracing()": "otel",
}
COMMANDS = {
    "local": "local",
    "audit": "local",
    "backup there": "local",
    "restore there": "local",
    "jobs run word_count --once": "cli",
    "sql -e 'SHOW STREAMS;'": "sql",
    "configure --stack x": "cli",
    "console": "cli",
    "topics list": "cli",
    "connect list": "connect",
}


def run(folder: Path, where: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(where), "COLUMNS": "120"}
    return subprocess.run(
        [str(folder / command[0]), *command[1:]],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=where,
        env=environment,
    )


def commands(folder: Path, where: Path, *path: str) -> list[tuple[str, ...]]:
    """All commands below a command, read from its help; each help was shown without an error."""
    shown = run(folder, where, "odradek", *path, "--help")
    assert shown.returncode == 0, (path, shown.stderr)
    assert "Usage: odradek" in shown.stdout, path
    paths = [path]
    # The first page is plain text (odradek.cli.commands), the others are tables.
    section = re.search(r"─ Commands ─.*?╯|^Commands:\n.*", shown.stdout, re.DOTALL | re.MULTILINE)
    for name in re.findall(r"^(?:│|  ?) ?([a-z][a-z-]*) ", section[0], re.MULTILINE) if section else ():
        paths += commands(folder, where, *path, name)
    return paths


@pytest.mark.parametrize("extra", ["", *EXTRAS])
def test_every_public_name_imports(extra: str, install: Install, tmp_path: Path) -> None:
    """Or names the extra that it needs: an embedded service and queries are not the client's."""
    code = (
        "import odradek, odradek.aio\n"
        "for module in (odradek, odradek.aio):\n"
        "    for name in module.__all__:\n"
        "        try:\n"
        "            assert getattr(module, name) is not None\n"
        "        except odradek.KafkaError as error:\n"
        "            assert (name, error.extra) in {('local', 'local'), ('query', 'cli'), ('query', 'spark')}, error\n"
        "print(odradek.__version__)"
    )

    done = run(install(extra), tmp_path, "python", "-c", code)

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == tomllib.loads((ROOT / "sdk" / "pyproject.toml").read_text())["project"]["version"]


def test_every_command_has_its_help_where_all_is_installed(install: Install, tmp_path: Path) -> None:
    """Without the libraries of its extra."""
    assert len(commands(install("sql"), tmp_path)) > 30


def test_the_client_alone_lists_the_commands_and_installs_little(install: Install, tmp_path: Path) -> None:
    shown = run(install(""), tmp_path, "odradek", "--help")
    [site] = install("").parent.glob("lib/python*/site-packages/odradek")

    assert shown.returncode == 0, shown.stderr
    assert "  topics " in shown.stdout
    assert sum(len(path.read_text().splitlines()) for path in site.rglob("*.py")) <= 30_000
    assert sorted(path.name for path in site.parent.glob("odradek*")) == ["odradek", "odradek-0.1.0.dist-info"]


def test_jobs_are_listed_without_spark(install: Install, tmp_path: Path) -> None:
    listed = run(install("sql"), tmp_path, "odradek", "jobs", "list", "--output", "json")

    assert listed.returncode == 0, listed.stderr
    job_names = sorted(path.parent.name for path in (ROOT / "glue_jobs").glob("*/job.py"))
    assert [job["job"] for job in json.loads(listed.stdout)] == job_names
    assert all(job["what_it_does"] for job in json.loads(listed.stdout))


@pytest.mark.parametrize("code", FEATURES)
def test_a_feature_names_the_extra_that_it_needs(code: str, install: Install, tmp_path: Path) -> None:
    name = FEATURES[code]

    bare = run(install(""), tmp_path, "python", "-c", code)

    assert bare.returncode == 1
    assert bare.stderr.splitlines()[-1].endswith(f"this needs odradek[{name}]: pip install 'odradek[{name}]'")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_names_the_extra_that_it_needs(command: str, install: Install, tmp_path: Path) -> None:
    name = COMMANDS[command]

    bare = run(install(""), tmp_path, "odradek", *shlex.split(command))

    assert (bare.returncode, bare.stderr) == (
        2,
        f"odradek: this needs odradek[{name}]: pip install 'odradek[{name}]'\n",
    )


NEXT = {
    "configure --stack x": "aws",
    "console": "console",
    "jobs run word_count --once": "spark",
    "local": "local",
    "query 'SELECT 1'": "query",
    "mcp": "mcp",
}
"""A command, and the extra that it needs where the command line and the parts without libraries are."""


@pytest.mark.parametrize("command", NEXT)
def test_a_command_names_the_extra_of_its_libraries(command: str, install: Install, tmp_path: Path) -> None:
    done = run(install("sql"), tmp_path, "odradek", *shlex.split(command))

    name = NEXT[command]
    assert (done.returncode, done.stderr) == (
        2,
        f"odradek: this needs odradek[{name}]: pip install 'odradek[{name}]'\n",
    )


@pytest.mark.parametrize("command", ["topics list", "groups list", "doctor", "consume t", "offsets t"])
def test_client_commands_need_the_command_line_alone(command: str, install: Install, tmp_path: Path) -> None:
    """Without a service they fail by saying that there is none, not for the want of a library."""
    done = run(install("cli"), tmp_path, "odradek", *shlex.split(command))

    assert done.returncode in (1, 2)
    assert "odradek[" not in done.stderr + done.stdout
    assert "bug" not in done.stderr
    assert "odradek local" in done.stderr + done.stdout


def test_the_example_of_readme_runs_with_what_readme_installs(install: Install, tmp_path: Path) -> None:
    [extra] = set(re.findall(r"^With `odradek\[(\w+)\]`:$", README, re.MULTILINE))
    [example] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)

    done = run(install(extra), tmp_path, "python", "-c", example)

    assert (done.returncode, done.stdout) == (0, "1000 orders\n"), done.stderr
