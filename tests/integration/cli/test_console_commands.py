"""Commands with a page in the console, and the command that opens the console: as a user runs them."""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import odradek
import pytest
from odradek.cli import connection as cli_connection
from odradek.cli import run
from odradek.client.serializers import HttpRegistry, Schema

Cli = Callable[..., tuple[int, str, str]]
MESSAGE = """syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Payment {
  string id = 1; int64 cents = 2; Inner inner = 3; google.protobuf.Timestamp at = 4;
  message Inner { bool ok = 1; }
}"""
RECORD = json.dumps({"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]})


@pytest.fixture(scope="module")
def service() -> Iterator[Any]:
    with odradek.local() as embedded:
        yield embedded


@pytest.fixture
def cli(service: Any, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Cli:
    config = service.client_config
    monkeypatch.setenv("ODRADEK_BOOTSTRAP_SERVERS", config["bootstrap_servers"])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", config["aws_access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", config["aws_secret_access_key"])
    monkeypatch.setattr(cli_connection, "_config_file", [])

    def call(*arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(stdin)))
        code = run(list(arguments))
        captured = capfdbinary.readouterr()
        return code, captured.out.decode(), captured.err.decode()

    return call


def test_a_topic_that_exists_is_left_as_it_is_if_asked(cli: Cli) -> None:
    assert cli("topics", "create", "once", "-p", "2", "--if-not-exists")[:2] == (0, "created once\n")
    assert cli("topics", "create", "once", "-p", "9", "--if-not-exists")[:2] == (0, "once exists\n")
    assert cli("topics", "create", "once")[0] == 1
    assert len(json.loads(cli("topics", "describe", "once", "--output", "json")[1])["partitions"]) == 2


def test_a_description_has_leaders_and_sizes(cli: Cli) -> None:
    cli("topics", "create", "sized", "-p", "1")
    cli("produce", "sized", stdin=b"a\nb\n")
    described = json.loads(cli("topics", "describe", "sized", "--output", "json")[1])
    [partition] = described["partitions"]
    assert partition["leader"] == 0
    assert partition["records"] == 2
    assert partition["size_bytes"] > 60
    assert "size bytes" in cli("topics", "describe", "sized")[1]
    assert "partitions:" in cli("topics", "describe", "sized", "--output", "yaml")[1]


def test_all_groups_are_described(cli: Cli, service: Any) -> None:
    cli("topics", "create", "read", "-p", "1")
    cli("produce", "read", stdin=b"a\n")
    with odradek.Admin(**service.client_config) as admin:
        admin.alter_consumer_group_offsets("one", {odradek.TopicPartition("read", 0): 0})
        admin.alter_consumer_group_offsets("two", {odradek.TopicPartition("read", 0): 1})
    groups_by_name = {
        group["group"]: group for group in json.loads(cli("groups", "describe", "--all", "--output", "json")[1])
    }
    assert groups_by_name["one"]["partitions"][0]["lag"] == 1
    assert groups_by_name["two"]["partitions"][0]["lag"] == 0
    assert "one" in cli("groups", "describe", "--all")[1]
    for wrong in ((), ("one", "--all")):
        assert cli("groups", "describe", *wrong)[0] == 2


def test_top_shows_rates_and_lag(cli: Cli) -> None:
    code, out, _ = cli("top", "-n", "1", "-i", "0.5", "--output", "json")
    shown = json.loads(out)
    assert code == 0
    assert shown["requests_per_s"] >= 0
    assert {"topics", "groups", "dollars_per_hour"} <= shown.keys()
    assert "records/s" in cli("top", "-n", "1", "-i", "0.5")[1]


PAYMENT = {"id": "p", "cents": "5", "inner": {"ok": True}, "at": "2026-11-22T09:00:00Z"}


@pytest.mark.parametrize(
    ("value_format", "schema", "value"),
    [("avro", RECORD, {"n": 7}), ("protobuf", MESSAGE, PAYMENT)],
    ids=["avro", "protobuf"],
)
def test_records_are_written_and_read_by_a_schema(
    cli: Cli, service: Any, value_format: str, schema: str, value: Any
) -> None:
    topic = f"typed-{value_format}"
    keys = {name: value for name, value in service.client_config.items() if name.startswith("aws_")}
    registry = HttpRegistry.discover(service.bootstrap_servers, **keys)
    registry.register(f"{topic}-value", Schema(schema, value_format.upper()))
    cli("topics", "create", topic, "-p", "1")

    written = cli("produce", topic, "--value-format", value_format, stdin=json.dumps(value).encode() + b"\n")
    refused = cli("produce", topic, "--value-format", value_format, stdin=b'{"unknown": 1}\n')

    assert written[0] == 0, written
    assert refused[0] == 1
    assert "line 1" in refused[2]
    for form in (value_format, "auto"):
        assert json.loads(cli("consume", topic, "--value-format", form)[1]) == value
    as_json = json.loads(cli("consume", topic, "--json", "--value-format", value_format)[1])
    assert json.loads(as_json["value"]) == value
    wrong = cli("consume", topic, "--value-format", "json")
    assert (wrong[0], "offset 0" in wrong[2]) == (1, True)


def test_plain_formats_and_unknown_ones(cli: Cli) -> None:
    cli("topics", "create", "plain", "-p", "1")
    assert cli("produce", "plain", "--value-format", "hex", stdin=b"00ff\n")[0] == 0
    assert cli("consume", "plain", "--value-format", "base64")[1] == "AP8=\n"
    assert cli("produce", "plain", "--value-format", "xml", stdin=b"x\n")[0] == 2
    assert cli("consume", "plain", "--value-format", "xml")[0] == 2


def test_a_configuration_file_has_what_every_client_has(
    cli: Cli, service: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ODRADEK_BOOTSTRAP_SERVERS", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    lines = [f"{name.replace('_', '.')}={value}" for name, value in service.client_config.items()]
    path = tmp_path / "client.properties"
    path.write_text("\n".join(["# a comment", "", *lines, "request.timeout.ms = 20000"]))

    assert cli("--config-file", str(path), "topics", "create", "by-file")[0] == 0
    monkeypatch.setenv("ODRADEK_CLIENT_CONFIG", str(path))
    assert "by-file" in cli("topics", "list")[1]

    for line, text in {
        "no equals sign": "line 1",
        "linger.ms=5": "use name=value with one of",
        "request.timeout.ms=soon": "must be a number",
    }.items():
        path.write_text(line)
        code, _, error = cli("topics", "list")
        assert (code, text in error) == (2, True), error
    monkeypatch.setenv("ODRADEK_CLIENT_CONFIG", str(tmp_path / "missing"))
    assert cli("topics", "list")[0] == 2


def test_a_console_is_opened_by_its_link_and_ends_at_a_signal(service: Any) -> None:
    config = service.client_config
    environment = {
        "AWS_ACCESS_KEY_ID": config["aws_access_key_id"],
        "AWS_SECRET_ACCESS_KEY": config["aws_secret_access_key"],
        "PATH": "",
    }
    command = [sys.executable, "-m", "odradek.cli", "console", "-b", config["bootstrap_servers"], "--port", "0"]
    process = subprocess.Popen(
        [*command, "--no-browser"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline()
        link = process.stdout.readline().strip()
        assert "signs in once" in address
        with urllib.request.urlopen(link) as page:
            assert "Signed in" in page.read().decode()
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(link)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
    finally:
        process.kill()
        process.communicate()


def test_the_embedded_service_brings_its_console(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "odradek.cli", "local", "--data-dir", str(tmp_path), "--port", "0"]
    process = subprocess.Popen(
        [*command, "--console-port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        output = ""
        while not (link := re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", output)):
            line = process.stdout.readline()
            assert line, output
            output += line
        with urllib.request.urlopen(link[0]) as page:
            assert page.status == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate()


def test_what_cannot_start_says_why(service: Any, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "odradek.cli", "console", "--no-browser", "--data-dir", str(tmp_path / "none")]
    failed = subprocess.run(
        command, capture_output=True, text=True, timeout=60, env={"PATH": "", "HOME": str(tmp_path)}
    )
    assert failed.returncode == 2
    assert "odradek local" in failed.stderr
    assert "Traceback" not in failed.stderr


def test_schemas_from_registration_to_deletion(cli: Cli, tmp_path: Path) -> None:
    first, second = tmp_path / "first.avsc", tmp_path / "second.avsc"
    first.write_text(RECORD)
    second.write_text(json.dumps({**json.loads(RECORD), "fields": [{"name": "m", "type": "long"}]}))
    assert cli("schemas", "register", "life-value", str(first))[1].startswith("life-value: schema id ")
    listed = json.loads(cli("schemas", "list", "--output", "json")[1])
    assert [row["versions"] for row in listed if row["subject"] == "life-value"] == [1]
    code, out, _ = cli("schemas", "check", "life-value", str(second), "--output", "json")
    assert (code, json.loads(out)["is_compatible"]) == (1, False)
    assert cli("schemas", "register", "life-value", str(second))[0] == 1
    assert cli("schemas", "set-compatibility", "life-value", "none")[0] == 0
    assert cli("schemas", "register", "life-value", "-", stdin=second.read_bytes())[0] == 0
    described = json.loads(cli("schemas", "describe", "life-value", "--output", "json")[1])
    assert (described["level"], [version["version"] for version in described["versions"]]) == ("NONE", [2, 1])
    lines = cli("schemas", "diff", "life-value")[1].splitlines()
    assert '-       "name": "n",' in lines
    assert '+       "name": "m",' in lines
    assert "subject: life-value" in cli("schemas", "describe", "life-value", "--version", "1", "--output", "yaml")[1]
    code, _, error = cli("schemas", "describe", "life-value", "--version", "9")
    assert (code, "it has 1, 2" in error) == (2, True)
    assert cli("schemas", "delete", "life-value", "-v", "1", "--yes")[1] == "deleted version 1 of life-value\n"
    assert cli("schemas", "delete", "life-value", "--yes")[1] == "deleted the subject life-value\n"
    assert cli("schemas", "describe", "life-value")[0] == 1


def test_records_are_searched_looked_up_and_saved(cli: Cli, tmp_path: Path) -> None:
    cli("topics", "create", "found", "-p", "2")
    lines = "".join(f'{{"key": "k{n % 3}", "value": {{"n": {n}}}}}\n' for n in range(30))
    cli("produce", "found", "--json", stdin=lines.encode())
    code, out, error = cli("search", "found", "--where", "value.n >= 20", "--output", "json")
    assert (code, len(json.loads(out))) == (0, 10), error
    assert "10 found in 30 records" in error
    [latest] = json.loads(cli("search", "found", "--latest-of", "k1", "--output", "json")[1])
    assert json.loads(latest["value"]["text"]) == {"n": 28}
    assert "k1" in cli("search", "found", "--key", "k1", "-n", "2")[1]
    saved = tmp_path / "found.csv"
    assert cli("search", "found", "--key", "k1", "--save", str(saved))[0] == 0
    assert len(saved.read_text().splitlines()) == 11
    for wrong, text in {
        ("--where", "value."): "invalid expression",
        ("--latest-of", "nobody"): "no record of found has the key",
        ("--save", str(tmp_path / "found.xml")): "must end in",
        ("--value-format", "cobol"): "unknown format",
        ("--offset", "soon"): "--offset must be",
    }.items():
        code, _, error = cli("search", "found", *wrong)
        assert (code != 0, text in error) == (True, True), (wrong, error)


def test_transactions_rights_and_consumers_are_shown(cli: Cli, service: Any) -> None:
    cli("topics", "create", "shown", "-p", "1")
    producer = odradek.Producer(**service.client_config, transactional_id="cli-import")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("shown", b"x").result(30)
    [row] = json.loads(cli("transactions", "list", "--open", "--output", "json")[1])
    assert (row["transactional_id"], row["partitions"]) == ("cli-import", ["shown-0"])
    assert cli("transactions", "abort", "cli-import", "--yes")[:2] == (0, "aborted cli-import\n")
    assert json.loads(cli("transactions", "list", "--open", "--output", "json")[1]) == []
    producer.close()
    with odradek.Admin(**service.client_config) as admin:
        admin.alter_consumer_group_offsets("looks", {odradek.TopicPartition("shown", 0): 0})
    [consumer] = json.loads(cli("topics", "consumers", "shown", "--output", "json")[1])
    assert (consumer["group"], consumer["members"]) == ("looks", 0)
    rights = json.loads(cli("acls", "explain", "--topic", "shown", "--output", "json")[1])
    assert [right["principal"] for right in rights] == ["User:*"]
    assert "describe_configs" in cli("acls", "explain", "--cluster", "--principal", "User:ada")[1]


def test_triggers_are_listed_with_progress_and_planned(cli: Cli) -> None:
    cli("topics", "create", "triggering", "-p", "1")
    cli("produce", "triggering", stdin=b"a\nb\n")
    url = "http://127.0.0.1:9/"
    cli("triggers", "create", "late", "--topic", "triggering", "--function", url)
    cli("triggers", "pause", "late")
    [row] = json.loads(cli("triggers", "list", "--progress", "--output", "json")[1])
    assert (row["name"], row["state"], row["lag"], row["failures"]) == ("late", "PAUSED", 0, 0)
    planned = json.loads(cli("triggers", "reset", "late", "--to", "earliest", "--dry-run", "--output", "json")[1])
    assert planned == [{"partition": "triggering-0", "committed": 2, "new": 0}]
    assert json.loads(cli("triggers", "describe", "late", "--output", "json")[1])["lag"] == 0
    cli("triggers", "delete", "late", "--yes")


def test_jobs_on_glue_need_a_deployment(cli: Cli) -> None:
    for words in (["runs"], ["progress", "word_count"], ["start", "word_count"], ["stop", "word_count"]):
        code, _, error = cli("jobs", *words)
        assert (code, "odradek configure" in error) == (2, True), (words, error)
