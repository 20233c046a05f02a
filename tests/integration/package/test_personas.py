"""People who meet Odradek, each with what their page says to install and to type, twice in a row.

Slow: an environment for each page is installed from the package index, and each walk starts a service.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.package.conftest import Environment
from tools.package import ROOT

pytestmark = pytest.mark.slow

SHOP = """
import odradek

def ship(config, order):
    with odradek.Producer(**config) as producer:
        producer.send("orders", b"%d shipped" % order).result()
"""
AGENT = """
import asyncio, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

async def main():
    command, *arguments = sys.argv[1:]
    async with stdio_client(StdioServerParameters(command=command, args=arguments)) as (read, write):
        async with ClientSession(read, write) as session:
            await session.initialize()
            found = await session.call_tool("list_topics", {})
            print([each["topic"] for each in found.structured_content["topics"]])

asyncio.run(main())
"""


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def blocks(name: str, language: str = "") -> list[str]:
    """Return the blocks of code of a page."""
    return [
        code
        for code_language, code in re.findall(r"^```(\w*)\n(.*?)^```", page(name), re.DOTALL | re.M)
        if code_language == language
    ]


def packages(name: str) -> list[str]:
    """Return what the first `pip install` of a page installs."""
    line = next(line for code in blocks(name) for line in code.splitlines() if line.startswith("pip install "))
    return shlex.split(line)[2:]


class Person:
    """A person in a folder, with an environment."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.programs, self.folder = programs, folder
        folder.mkdir(exist_ok=True)
        self.environ = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(folder), "COLUMNS": "120"}

    def types(self, line: str, code: int = 0) -> str:
        """Run a line of a shell; return what it printed to standard output."""
        done = subprocess.run(
            ["bash", "-c", line], cwd=self.folder, env=self.environ, capture_output=True, text=True, timeout=300,
            check=False,
        )  # fmt: skip
        assert done.returncode == code, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def runs(self, program: str) -> str:
        (self.folder / "program.py").write_text(program)
        return self.types("python program.py")

    @contextmanager
    def service(self, *options: str) -> Iterator[None]:
        """Keep `odradek local` running; it ends with SIGTERM, without a traceback."""
        command = [str(self.programs / "odradek"), "local", "--port", "0", *options]
        with subprocess.Popen(
            command, cwd=self.folder, env=self.environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            try:
                self._wait_for_service()
                yield
            finally:
                process.send_signal(signal.SIGTERM)
                said, _ = process.communicate(timeout=120)
        assert "Traceback" not in said

    def _wait_for_service(self) -> None:
        self.types("for i in $(seq 100); do odradek topics list >/dev/null 2>&1 && exit; sleep 0.3; done; exit 1")


@pytest.fixture(params=["first", "second"])
def folder(tmp_path: Path) -> Path:
    """A folder of the person's, for each of two walks."""
    return tmp_path


def test_a_newcomer_follows_the_quick_start(environment: Environment, folder: Path) -> None:
    person = Person(environment(*packages("quickstart.md")), folder)
    session = next(code for code in blocks("quickstart.md") if code.startswith("$ "))
    with person.service():
        for step in re.split(r"^\$ ", session, flags=re.M)[1:]:
            line, _, printed = step.partition("\n")
            assert sorted(person.types(f"{{ {line}; }} 2>&1").splitlines()) == sorted(printed.splitlines()), line
    program = blocks("quickstart.md", "python")[0]
    assert person.runs(program).endswith("b'alice' b'1 book'\n")
    assert person.runs(program).endswith("b'alice' b'1 book'\n")


def test_a_user_of_kafka_sends_a_record(environment: Environment, folder: Path) -> None:
    person = Person(environment(*packages("quickstart.md"), "confluent-kafka"), folder)
    port = 20_000 + os.getpid() % 20_000
    program = blocks("quickstart.md", "python")[1].replace("9092", str(port))
    with person.service("--kafka-port", str(port)):
        person.types("odradek topics create orders")
        assert [person.runs(program) for _ in range(2)] == ["delivered\n"] * 2
        assert person.types("odradek consume orders") == "3 cups\n3 cups\n"


def test_a_data_engineer_asks_a_topic(environment: Environment, folder: Path) -> None:
    person = Person(environment("odradek[local,query]"), folder)
    with person.service():
        person.types("odradek topics create orders")
        person.types("""printf '{"pieces": 2}\\n{"pieces": 3}\\n' | odradek produce orders""")
        sql = "SELECT sum(pieces) AS pieces FROM orders"
        assert json.loads(person.types(f'odradek query "{sql}" --output json')) == [{"pieces": 5}]


def test_a_platform_engineer_keeps_a_cluster_file(environment: Environment, folder: Path) -> None:
    person = Person(environment(*packages("quickstart.md")), folder)
    [whole] = blocks("cluster-file.md", "yaml")
    sections = re.split(r"^(?=\w)", whole, flags=re.M)  # without a bucket, a file of a schema and a server of SQL
    (folder / "cluster.yaml").write_text(
        "".join(section for section in sections if section[:6] in ("topics", "users:", "quotas"))
    )
    with person.service():
        person.types("odradek apply -f cluster.yaml --check", code=1)
        applied = person.types("ADA_PASSWORD='a long password' odradek apply -f cluster.yaml")
        assert "created topic orders" in applied
        assert "nothing to change" in person.types("odradek apply -f cluster.yaml --check --prune")
        person.types("odradek export -f exported.yaml")
        assert "nothing to change" in person.types("odradek apply -f exported.yaml --check --prune")


def test_an_operator_checks_backs_up_and_restores(environment: Environment, folder: Path) -> None:
    person = Person(environment(*packages("quickstart.md")), folder)
    with person.service():
        person.types("odradek topics create orders && echo 1 | odradek produce orders")
        assert "FAIL" not in person.types("odradek doctor")
        person.types("odradek backup saved")
    person.types("odradek restore saved --data-dir restored")
    person.environ["ODRADEK_DATA_DIR"] = "restored"
    with person.service():
        assert person.types("odradek consume orders") == "1\n"
    person.types("odradek audit")
    assert "saves" in person.types("odradek cost estimate --rate 1MiB/s").splitlines()[-1]


def test_a_tester_uses_the_fixtures(environment: Environment, folder: Path) -> None:
    person = Person(environment(*packages("testing.md")), folder)
    (folder / "shop.py").write_text(SHOP)
    (folder / "test_shop.py").write_text(blocks("testing.md", "python")[0])
    assert [" passed" in person.types("python -m pytest -q") for _ in range(2)] == [True, True]


def test_an_agent_lists_the_topics(environment: Environment, folder: Path) -> None:
    programs = environment(*packages("agents.md"))
    person = Person(programs, folder)
    with person.service():
        person.types("odradek topics create orders")
        (folder / "agent.py").write_text(AGENT)
        assert person.types(f"python agent.py {programs}/odradek mcp --data-dir .odradek") == "['orders']\n"
