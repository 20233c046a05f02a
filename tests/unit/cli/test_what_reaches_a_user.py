"""Errors and tables of the command line, without a service: one line, whole, an exit code that tells whose fault."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from odradek.cli import run
from odradek.cli.connection import client_configs
from odradek.cli.output import show_rows
from odradek.cli.screen import confirm
from odradek.errors import OdradekError
from odradek.local.credentials import load_or_create_credentials

URL = "http://127.0.0.1:9292"


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = run(list(arguments))
    return code, capsys.readouterr().err


def test_an_unexpected_error_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(*_: object, **__: object) -> int:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("odradek.cli.app.app", fail)
    code, text = said(capsys, "topics", "list")
    assert (code, text.count("\n")) == (1, 1)
    assert text.startswith("odradek: unexpected ZeroDivisionError: by zero. This is a bug")
    monkeypatch.setenv("ODRADEK_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        run(["topics", "list"])


def test_files_are_named_without_errno(capsys: pytest.CaptureFixture[str]) -> None:
    reset = ("groups", "reset-offsets", "g", "--file")
    assert said(capsys, *reset, "/no/such.csv") == (1, "odradek: /no/such.csv: No such file or directory\n")


@pytest.mark.parametrize(
    ("content", "reason"), [(b"\xff\xfe\n", "line 1: use topic,partition,offset, not"), (b"", "has no lines of")]
)
def test_a_file_that_holds_no_offsets(
    content: bytes, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "offsets.csv"
    file.write_bytes(content)
    code, text = said(capsys, "groups", "reset-offsets", "g", "--file", str(file))
    assert (code, text.count("\n")) == (2, 1)
    assert reason in text


@pytest.mark.parametrize(
    ("name", "reason"), [("a.foo", "--chart must end in one of "), ("none/a.png", "does not exist")]
)
def test_a_chart_that_cannot_be_drawn_is_refused_before_anything_is_measured(
    name: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    code = run(["cost", "estimate", "--rate", "1KiB/s", "--chart", str(tmp_path / name)])
    printed = capsys.readouterr()
    assert (code, printed.out) == (2, "")
    assert reason in printed.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("create", "--principal", "User:ada", "-o", "reed", "--topic", "t"),
        ("create", "--principal", "User:ada", "-o", "read"),
        ("create", "--principal", "User:ada", "-o", "read", "--topic", "t", "--group", "g"),
        ("delete",),
    ],
)
def test_wrong_usage_of_acls_is_2(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "acls", *arguments)[0] == 2


def test_a_password_is_asked_for_at_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    monkeypatch.delenv("ODRADEK_USER_PASSWORD", raising=False)
    code, text = said(capsys, "users", "create", "ada")
    assert (code, text.count("\n")) == (2, 1)
    assert "set ODRADEK_USER_PASSWORD" in text


def test_a_trigger_is_checked_before_spark_starts(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = said(capsys, "sql", "-e", "SHOW TOPICS", "--trigger", "often")
    assert (code, "--trigger must be like" in text) == (2, True)


def test_names_are_whole_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    arn = "User:arn:aws:iam::123456789012:role/" + "Writers" * 20
    show_rows([{"principal": arn, "operation": "read"}], ["principal", "operation"])
    _, row = capsys.readouterr().out.splitlines()
    assert row.split() == [arn, "read"]


def test_who_is_not_asked_is_told_how_to_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    confirm("Delete?", yes=True)
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    with pytest.raises(OdradekError, match=r"^nothing was done$"):
        confirm("Delete?", yes=False)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with pytest.raises(OdradekError, match="add --yes"):
        confirm("Delete?", yes=False)


def test_ctrl_c_at_a_question_is_an_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("sys.stdin", SimpleNamespace(readline=interrupt, isatty=lambda: True))
    monkeypatch.setattr("builtins.input", interrupt)
    with pytest.raises((typer.Abort, KeyboardInterrupt)):
        confirm("Delete?", yes=False)


def test_the_second_ctrl_c_ends_a_command_that_closes_slowly() -> None:
    command = """
import time, odradek.cli
def run(_):
    try:
        print("ready", flush=True)
        time.sleep(30)
    finally:
        print("closing", flush=True)
        time.sleep(30)
odradek.cli.run = run
odradek.cli.main()
"""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", command], stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        for line in (b"ready\n", b"closing\n"):
            assert process.stdout.readline() == line
            process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=20) == (b"", b"")
    assert process.returncode == 130


def test_a_key_of_aws_is_not_for_the_service_of_this_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = load_or_create_credentials(tmp_path).access_key_id
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    assert client_configs(URL, tmp_path)["aws_access_key_id"] == ours
    assert "aws_access_key_id" not in client_configs("https://id.lambda-url.eu-west-1.on.aws", tmp_path)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ODRADEKLOCAL00000000")  # what another `odradek local` printed
    assert "aws_access_key_id" not in client_configs(URL, tmp_path)


def test_the_registry_alone_may_ask_for_logins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "file"
    folder.write_text("in the way")
    code, text = said(capsys, "local", "--registry-port", "0", "--kafka-sasl", "--data-dir", str(folder))
    assert (code, "cannot write to" in text) == (2, True)
    code, text = said(capsys, "local", "--kafka-sasl", "--data-dir", str(folder))
    assert (code, "the options of the Kafka port need --kafka-port" in text) == (2, True)
