"""The shell over a server on a socket: statements over several lines, results, what holds for a session, Ctrl-C."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from odradek.cli.pipeline.sql_shell import Shell, is_complete, own_server
from odradek.errors import KafkaError
from odradek.sql.server.app import ServerInfo
from odradek.sql.server.client import RestClient
from odradek.sql.server.serving import Listening, serve_sql

from tests.support.sql_server import STREAM, TABLE, World


class Screen:
    def __init__(self) -> None:
        self.shown: list[Any] = []

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self.shown.append([tuple(columns), *map(tuple, rows)])

    def rows(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self.shown += [tuple(row) for row in rows]

    def say(self, text: str) -> None:
        self.shown.append(text)


@asynccontextmanager
async def shell(world: World) -> AsyncIterator[tuple[Shell, Screen]]:
    async with serve_sql(world.service, ServerInfo("1", "c", "default_", "", 1), Listening()) as url:
        screen = Screen()
        yield Shell(RestClient(url), screen), screen
    world.service.close()


async def typed(it: Shell, *lines: str | BaseException) -> None:
    """Type lines; an exception stands for Ctrl-C or the end of the input."""
    waiting = iter([*lines, EOFError()])

    def read(_: str) -> str:
        line = next(waiting)
        if isinstance(line, BaseException):
            raise line
        return line

    await asyncio.to_thread(it.run, read)


async def test_a_session() -> None:
    world = World()
    async with shell(world) as (it, screen):
        await typed(
            it,
            *STREAM.replace(" WITH", "\nWITH").splitlines(),
            TABLE,
            "SELECT half",
            KeyboardInterrupt(),
            "",
            "SHOW QUERIES;",
        )
        assert screen.shown == [
            "Stream created",
            "Created query with ID CTAS_N_1",
            [("query", "writes", "topic", "state"), ("CTAS_N_1", "N", "N", "RUNNING")],
        ]
        screen.shown.clear()
        world.engine.arriving = [[("x", 1, "1.50")]]
        world.engine.present = [("x", 7)]
        await typed(it, "SELECT * FROM s EMIT CHANGES LIMIT 1;", "SELECT * FROM n;", "exit", "SHOW STREAMS;")
        assert screen.shown == [("x", 1, 1.5), ("x", 7)]


async def test_what_holds_for_the_session_is_sent_with_each_statement() -> None:
    world = World()
    async with shell(world) as (it, screen):
        await typed(
            it, "SET 'auto.offset.reset' = 'earliest'; DEFINE many = 'c';", STREAM, TABLE.replace("AS c", "AS ${many}")
        )
        assert world.engine.started["CTAS_N_1"].starting_offsets == "earliest"
        assert "`C`" in world.engine.started["CTAS_N_1"].sql
        screen.shown.clear()
        await typed(it, "SHOW VARIABLES;", "SET 'nonsense' = '1';", "SELECT nope FROM n;", "help")
        assert screen.shown[0] == [("variable", "value"), ("MANY", "c")]
        assert screen.shown[1] == "unknown property nonsense\n  nonsense"
        assert "N has no column NOPE" in screen.shown[2]
        assert "RUN SCRIPT" in screen.shown[3]


async def test_a_script_runs_in_the_shell(tmp_path: Path) -> None:
    world = World()
    script = tmp_path / "it's.sql"
    script.write_text(STREAM + "\n-- comment;\n" + TABLE)
    async with shell(world) as (it, screen):
        name = str(script).replace("'", "''")
        await typed(it, f"RUN SCRIPT '{name}';", f"RUN SCRIPT '{tmp_path}/none.sql';")
        assert screen.shown[:2] == ["Stream created", "Created query with ID CTAS_N_1"]
        assert "No such file" in screen.shown[2]


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("SHOW STREAMS;", True),
        ("SHOW STREAMS", False),
        ("SELECT ';' FROM s", False),
        ("SELECT ';' FROM s; -- ;", True),
        ("INSERT INTO s VALUES ('it''s;", False),
        ("/* ; */", False),
        ("A; B", False),
        ("A; B;\n", True),
        ("SELECT `a;b` FROM s;", True),
    ],
)
def test_a_statement_ends_with_a_semicolon_outside_of_strings(text: str, *, complete: bool) -> None:
    assert is_complete(text) is complete


def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(KafkaError, match=r"no server of stream SQL at 127\.0\.0\.1:1: Connection refused"):
        RestClient("http://127.0.0.1:1").info()
    with pytest.raises(KafkaError, match="--server must be like"):
        RestClient("127.0.0.1:8088")


def test_a_server_of_its_own_that_does_not_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):  # else they would be used
        monkeypatch.delenv(name, raising=False)
    arguments = ["--data-dir", str(tmp_path / "none"), "-b", "http://127.0.0.1:1"]
    with (
        pytest.raises(KafkaError, match="is not the folder of an embedded service"),
        own_server(arguments, tmp_path / "shell.log"),
    ):
        pass
