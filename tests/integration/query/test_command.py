"""`odradek query`: the formats of its output, and errors on one line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from odradek.cli.app import app
from typer.testing import CliRunner

from tests.support.spark.session import LiveLog

SQL = "SELECT origin, count(*) AS flights FROM flights GROUP BY origin ORDER BY origin"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with LiveLog(tmp_path_factory.mktemp("query") / "store") as log:
        log.create("flights")
        log.produce("flights", 0, [(None, b'{"origin": "%s"}' % origin) for origin in (b"JFK", b"EWR", b"JFK")])
        yield str(log.data_dir)


def run(folder: str, *arguments: str) -> str:
    result = CliRunner().invoke(app, ["query", "--data-dir", folder, *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("table", "origin  flights\nEWR           1\nJFK           2\n"),
        ("csv", "origin,flights\nEWR,1\nJFK,2\n"),
        ("yaml", "- origin: EWR\n  flights: 1\n- origin: JFK\n  flights: 2\n"),
        ("chart", f"EWR  {'█' * 25} 1\nJFK  {'█' * 50} 2\n"),
    ],
)
def test_output(folder: str, form: str, text: str) -> None:
    assert run(folder, SQL, "--output", form) == text


def test_json_has_every_value_as_plain_data(folder: str) -> None:
    sql = "SELECT value, timestamp, headers, key, offset AS n, offset AS n FROM flights WHERE offset = 1"
    assert json.loads(run(folder, sql, "--output", "json")) == [
        {"value": '{"origin": "EWR"}', "timestamp": "2023-11-14T22:13:20.001000+00:00", "headers": [], "key": None}
        | {"n": 1, "n_2": 1}
    ]


def test_files(folder: str, tmp_path: Path) -> None:
    run(folder, SQL, "--output", "parquet", "--to", str(tmp_path / "a.parquet"))
    assert pq.read_table(tmp_path / "a.parquet").to_pylist()[0] == {"origin": "EWR", "flights": 1}
    run(folder, SQL, "--output", "csv", "--to", str(tmp_path / "a.csv"))
    assert (tmp_path / "a.csv").read_text() == "origin,flights\nEWR,1\nJFK,2\n"
    run(folder, SQL, "--output", "chart", "--to", str(tmp_path / "a.svg"))
    assert "<svg" in (tmp_path / "a.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["SELECT * FROM flight"], "did you mean flights?"),
        ([SQL, "--output", "parquet"], "--to FILE"),
        (["SELECT origin FROM flights", "--output", "chart"], "a column of numbers"),
    ],
)
def test_errors_say_what_to_do(folder: str, arguments: list[str], message: str) -> None:
    from odradek.errors import KafkaError

    with pytest.raises(KafkaError, match=message.replace("?", r"\?")):
        run(folder, *arguments)
