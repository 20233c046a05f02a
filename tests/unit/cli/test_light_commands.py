"""Imports of a command before it does anything: `--version` and a shell that completes a word must not wait for it.

Modules are listed and not milliseconds: a busy machine must not fail it.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from odradek.cli.commands import COMMANDS

HEAVY = (
    "aiohttp", "boto3", "botocore", "kio", "lark", "msgpack", "numba", "numpy", "pandas", "pyarrow", "pydantic",
    "pyspark", "rich", "typer", "asyncio",
    "odradek.client.admin", "odradek.dispatcher", "odradek.engine", "odradek.functions", "odradek.gateway",
    "odradek.local.service", "odradek.sql",
)  # fmt: skip
PROGRAM = """
import sys
from odradek.cli import run
code = run({arguments!r})
print("MODULES", *sorted(sys.modules), file=sys.stderr)
sys.exit(code)
"""


def imported(*arguments: str, **environment: str) -> tuple[str, set[str]]:
    """Return the output of a command, and the heavy modules that it has imported."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(arguments=list(arguments))],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    [modules] = [line.split()[1:] for line in done.stderr.splitlines() if line.startswith("MODULES")]
    heavy = {name for name in modules for package in HEAVY if name == package or name.startswith(f"{package}.")}
    return done.stdout, heavy


def test_the_version_needs_nothing() -> None:
    printed, heavy = imported("--version")
    assert printed.startswith("odradek ")
    assert heavy == set()


@pytest.mark.parametrize("argument", ["--help", "-h"])
def test_the_help_needs_nothing_and_names_every_command(argument: str) -> None:
    printed, heavy = imported(argument)
    commands = printed.partition("Commands:\n")[2].splitlines()
    assert {line.split()[0] for line in commands if line[2] != " "} == {*COMMANDS}
    assert heavy == set()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("odradek ", {*COMMANDS}),
        ("odradek gro", {"groups"}),
        ("odradek topics des", {"describe"}),
    ],
)
def test_a_shell_completes_commands_without_a_client(words: str, offered: set[str]) -> None:
    """The words go through the same entry as a shell's do: an environment variable."""
    program = "import sys; sys.argv = ['odradek']; import odradek.cli as cli; import atexit; atexit.register(lambda: "
    program += "print('MODULES', *sorted(sys.modules), file=sys.stderr)); cli.main()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={
            **os.environ,
            "_ODRADEK_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split(" ")) - 1),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert {*done.stdout.split()} == offered, done.stderr[-2000:]
    modules = done.stderr.split()
    heavy = set(HEAVY) - {"typer", "asyncio"}
    assert not {name for name in modules for package in heavy if name == package or name.startswith(f"{package}.")}


def test_every_command_is_found_and_has_help() -> None:
    from odradek.cli.app import app
    from typer.main import get_command

    root = get_command(app)
    for name in COMMANDS:
        command = root.get_command(None, name)  # type: ignore[attr-defined]
        assert command.name == name
        assert command.help.startswith(COMMANDS[name].summary), name
    assert root.get_command(None, "bogus") is None  # type: ignore[attr-defined]
