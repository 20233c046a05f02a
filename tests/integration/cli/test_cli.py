"""The command line against an embedded service: what it prints, and one line with Kafka's error name when it fails."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import odradek
import pytest
from odradek.cli import run
from odradek.dispatcher.answer import build
from odradek.local import LocalService
from odradek.model.log import ProducePartition
from odradek.protocol.api import ApiKey
from odradek.protocol.frame import request_schema, response_schema
from odradek.settings import Settings

from tests.support.engine import batch

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def service() -> Iterator[object]:
    with odradek.local() as service:  # type: ignore[operator]
        yield service


@pytest.fixture
def cli(service: object, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Cli:
    """Run a command as a user would; (exit code, standard output, standard error)."""
    config = service.client_config  # type: ignore[attr-defined]
    monkeypatch.setenv("ODRADEK_BOOTSTRAP_SERVERS", config["bootstrap_servers"])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", config["aws_access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", config["aws_secret_access_key"])

    def call(*arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(stdin)))
        code = run(list(arguments))
        captured = capfdbinary.readouterr()
        return code, captured.out.decode(), captured.err.decode()

    return call


def test_topics(cli: Cli) -> None:
    assert cli("topics", "create", "made", "-p", "3", "-c", "retention.ms=1000")[:2] == (0, "created made\n")
    assert "made" in cli("topics", "list")[1].split()
    code, shown, _ = cli("topics", "describe", "made")
    assert code == 0
    assert "3 partitions" in shown
    assert "retention.ms = 1000" in shown
    assert cli("topics", "delete", "made", "--yes")[0] == 0
    assert "made" not in cli("topics", "list")[1].split()


def test_a_topic_is_altered(cli: Cli) -> None:
    cli("topics", "create", "grown", "-p", "1", "-c", "retention.ms=1000")
    assert cli("topics", "alter", "grown", "-p", "3", "-c", "segment.ms=60000", "-c", "retention.ms=")[0] == 0
    shown = cli("topics", "describe", "grown")[1]
    assert "3 partitions" in shown
    assert "segment.ms = 60000" in shown
    assert "retention.ms" not in shown
    for wrong, code in (("-p", "2"), 1), (("-c", "no.such=1"), 2), ((), 2):
        assert cli("topics", "alter", "grown", *wrong)[0] == code
    code, _, said = cli("topics", "alter", "nowhere", "-c", "retention.ms=1")
    assert (code, "topic 'nowhere' does not exist" in said) == (1, True)


def test_records_come_back_with_keys_and_offsets(cli: Cli) -> None:
    cli("topics", "create", "letters", "-p", "1")
    code, _, said = cli("produce", "letters", "-K", ":", "-z", "lz4", stdin=b"a:1\nb:\xc3\xa4\na:\n")
    assert (code, said) == (0, "sent 3 records to letters\n")
    code, lines, said = cli("consume", "letters", "--json")
    assert (code, said) == (0, "3 records\n")
    records = [json.loads(line) for line in lines.splitlines()]
    assert [(r["offset"], r["key"], r["value"]) for r in records] == [(0, "a", "1"), (1, "b", "ä"), (2, "a", "")]
    assert cli("consume", "letters", "-o", "1", "-n", "1")[1] == "ä\n"
    assert cli("consume", "letters", "-o", "latest")[1] == ""


def test_deleted_records_are_not_consumed(cli: Cli) -> None:
    cli("topics", "create", "cut", "-p", "1")
    cli("produce", "cut", stdin=b"1\n2\n3\n4\n")
    code, shown, _ = cli("topics", "delete-records", "cut", "--before", "2", "-y")
    assert (code, shown.splitlines()[1].split()) == (0, ["cut-0", "2", "2"])
    assert cli("consume", "cut")[1].split() == ["3", "4"]
    code, _, said = cli("topics", "delete-records", "cut", "--before", "9", "-p", "0", "-y")
    assert code == 1
    assert said == "odradek: OFFSET_OUT_OF_RANGE: --before 9: cut-0 ends at offset 4; nothing was deleted\n"
    shown = cli("topics", "delete-records", "cut", "--before", "-1", "-y", "--output", "json")[1]
    assert json.loads(shown) == [{"partition": "cut-0", "log_start_offset": 4, "deleted": 2}]


def test_records_are_deleted_in_all_partitions_or_in_none(cli: Cli) -> None:
    """Some partitions were cut, and the error named only the others."""
    cli("topics", "create", "uneven", "-p", "3")
    cli("produce", "uneven", "-p", "0", stdin=b"1\n2\n3\n")
    cli("produce", "uneven", "-p", "2", stdin=b"1\n2\n")
    code, printed, said = cli("topics", "delete-records", "uneven", "--before", "2", "-y")
    assert (code, printed) == (1, "")
    assert said == "odradek: OFFSET_OUT_OF_RANGE: --before 2: uneven-1 ends at offset 0; nothing was deleted\n"
    assert sorted(cli("consume", "uneven")[1].split()) == ["1", "1", "2", "2", "3"]
    code, _, said = cli("topics", "delete-records", "uneven", "--before", "1", "-p", "0", "-p", "7", "-y")
    assert (code, "has partitions 0 to 2, not 7; nothing was deleted" in said) == (1, True)
    assert cli("topics", "delete-records", "uneven", "--before", "-3", "-y")[0] == 1
    code, printed, _ = cli("topics", "delete-records", "uneven", "--before", "2", "-p", "0", "-p", "2", "-y")
    assert (code, [line.split() for line in printed.splitlines()[1:]]) == (
        0,
        [["uneven-0", "2", "2"], ["uneven-2", "2", "2"]],
    )


def test_null_values(cli: Cli) -> None:
    cli("topics", "create", "tombs", "-c", "cleanup.policy=compact")
    assert cli("produce", "tombs", "-K", ":", "--null", stdin=b"k:\n")[0] == 0
    assert json.loads(cli("consume", "tombs", "--json")[1])["value"] is None
    code, _, said = cli("produce", "tombs", stdin=b"no key\n")
    assert code == 1
    assert said.startswith("odradek: INVALID_RECORD:")


def test_a_group_commits_and_is_described(cli: Cli) -> None:
    cli("topics", "create", "work", "-p", "2")
    cli("produce", "work", stdin=b"1\n2\n3\n4\n")
    assert sorted(cli("consume", "work", "-g", "crew")[1].split()) == ["1", "2", "3", "4"]
    assert cli("consume", "work", "-g", "crew")[1] == "", "its offsets were committed"
    assert "crew" in cli("groups", "list")[1]
    shown = cli("groups", "describe", "crew")[1]
    assert "work-0" in shown
    assert "work-1" in shown


def test_a_group_goes_on_behind_the_last_printed_record(cli: Cli) -> None:
    cli("topics", "create", "counted", "-p", "1")
    cli("produce", "counted", stdin=b"1\n2\n3\n4\n5\n")
    assert cli("consume", "counted", "-g", "few", "-n", "2")[1].split() == ["1", "2"]
    assert cli("consume", "counted", "-g", "few", "-n", "2")[1].split() == ["3", "4"]
    assert cli("consume", "counted", "-g", "few")[1].split() == ["5"]


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_command_commits_what_was_printed(cli: Cli, service: object, stop: signal.Signals) -> None:
    topic, group = f"followed-{stop.name}", f"watchers-{stop.name}"
    cli("topics", "create", topic, "-p", "1")
    cli("produce", topic, stdin=b"1\n2\n")
    command = [sys.executable, "-m", "odradek.cli", "consume", topic, "-g", group, "-f"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert [process.stdout.readline(), process.stdout.readline()] == [b"1\n", b"2\n"]
        process.send_signal(stop)
        assert process.stderr.read().decode() == "2 records\n"
        assert process.wait(60) == 128 + stop
    assert cli("groups", "export-offsets", group)[1] == f"{topic},0,2\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("topics", "delete", "nowhere", "-y"), "UNKNOWN_TOPIC_OR_PARTITION: topic 'nowhere' does not exist"),
        (("groups", "describe", "nobody"), "GROUP_ID_NOT_FOUND: group 'nobody' does not exist"),
        (("groups", "export-offsets", "nobody"), "GROUP_ID_NOT_FOUND: group 'nobody' does not exist"),
        (("groups", "delete", "nobody", "-y"), "GROUP_ID_NOT_FOUND: group 'nobody' does not exist"),
        (("consume", "x", "-n", "-1"), "Error: Invalid value for '--count'"),
    ],
)
def test_errors_say_once_what_is_missing(cli: Cli, arguments: tuple[str, ...], text: str) -> None:
    code, printed, said = cli(*arguments)
    assert code != 0
    assert printed == ""
    assert text in said


@pytest.mark.parametrize(
    ("arguments", "code", "name"),
    [
        (("produce", "nowhere"), 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        (("topics", "create", "bad name"), 1, "INVALID_TOPIC_EXCEPTION"),
        (("topics", "create", "x", "-c", "nonsense"), 2, "INVALID_CONFIG"),
        (("topics", "create", "x", "-c", "no.such=1"), 2, "INVALID_CONFIG"),
        (("topics", "describe", "nowhere"), 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        (("topics", "delete", "nowhere", "--yes"), 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        (("consume", "nowhere", "-o", "sideways"), 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        (("topics", "list", "-b", "localhost:9092"), 2, "INVALID_CONFIG"),
    ],
)
def test_errors_are_one_line(cli: Cli, arguments: tuple[str, ...], code: int, name: str) -> None:
    exit_code, out, said = cli(*arguments)
    assert (exit_code, out) == (code, "")
    assert said.startswith(f"odradek: {name}: ")
    assert said.count("\n") == 1
    assert "Traceback" not in said


def test_wrong_usage_says_so(cli: Cli) -> None:
    code, _, said = cli("bogus")
    assert code == 2
    assert "No such command" in said


@pytest.mark.parametrize(
    "command",
    [(), ("local",), ("topics",), ("topics", "create"), ("produce",), ("consume",), ("groups",), ("demo",), ("audit",)],
)
def test_help_is_there_for_every_command(cli: Cli, command: tuple[str, ...]) -> None:
    code, shown, _ = cli(*command, "--help")
    assert code == 0
    assert "Usage" in shown


def test_audit_of_a_running_service_reads_only(cli: Cli, service: object) -> None:
    cli("topics", "create", "audited")
    cli("produce", "audited", stdin=b"1\n2\n")
    data_dir = str(service.data_dir)  # type: ignore[attr-defined]
    code, shown, _ = cli("audit", "--data-dir", data_dir)
    assert code == 0
    assert "clean" in shown
    code, shown, _ = cli("audit", "--data-dir", data_dir, "--fast", "--output", "json")
    report = json.loads(shown)
    assert (code, report["clean"], report["findings"]) == (0, True, [])
    assert report["checked"]["topics"] >= 1
    code, _, said = cli("audit", "--data-dir", data_dir, "--repair")
    assert code == 2
    assert said.startswith("odradek: cannot audit: ")
    assert cli("consume", "audited")[1].split() == ["1", "2"]


def test_audit_names_what_is_missing_and_a_repair_does_not_make_it_up(cli: Cli, tmp_path: Path) -> None:
    async def fill() -> None:
        async with LocalService(tmp_path, synchronous="NORMAL", settings=Settings(item_bytes_max=0)) as service:
            await service.engine.topics.create("t")
            [result] = await service.engine.produce([ProducePartition("t", 0, batch([b"x"]))])
            assert not result.error

    asyncio.run(fill())
    [stored] = (tmp_path / "objects" / "wal").glob("*/*/*")
    stored.unlink()
    for options in ((), ("--repair",)):
        code, shown, _ = cli("audit", "--data-dir", str(tmp_path), *options)
        assert code == 1
        assert "missing" in shown
        assert "t-0" in shown
        assert stored.name in shown


def test_audit_of_no_store_says_so(cli: Cli, tmp_path: Path) -> None:
    code, out, said = cli("audit", "--data-dir", str(tmp_path))
    assert (code, out) == (2, "")
    assert "--data-dir" in said
    assert said.count("\n") == 1
    code, _, said = cli("audit", "--bucket", "b", "--log-table", "l")
    assert code == 2
    assert "--groups-table, --catalog-table" in said


def test_users_of_the_kafka_port(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODRADEK_USER_PASSWORD", "lovelace")
    assert cli("users", "create", "ada")[0] == 0
    assert cli("users", "list")[1].split() == ["ada"]
    assert cli("users", "delete", "ada")[0] == 0
    code, _, errors = cli("users", "delete", "ada")
    assert code == 1
    assert "RESOURCE_NOT_FOUND" in errors


def test_client_quotas(cli: Cli) -> None:
    assert cli("quotas", "set", "producer_byte_rate=1000", "request_percentage=12.5", "--user", "ada")[0] == 0
    assert cli("quotas", "set", "connection_creation_rate=5", "--ip", "default")[0] == 0
    assert cli("quotas", "remove", "producer_byte_rate", "--user", "ada")[0] == 0
    assert json.loads(cli("quotas", "list", "--output", "json")[1]) == [
        {"user": None, "client_id": None, "ip": "default", "quota": "connection_creation_rate", "value": 5.0},
        {"user": "ada", "client_id": None, "ip": None, "quota": "request_percentage", "value": 12.5},
    ]
    for arguments, reason in (
        (("producer_byte_rate=x", "--user", "ada"), "needs a number"),
        (("producer_byte_rate=1",), "give --user, --client-id or --ip"),
        (("request_rate=1", "--user", "ada"), "known are"),
    ):
        code, out, errors = cli("quotas", "set", *arguments)
        assert (code != 0, out, errors.count("\n")) == (True, "", 1)
        assert reason in errors


def test_a_share_group(cli: Cli) -> None:
    cli("topics", "create", "mails", "-p", "1")
    cli("produce", "mails", stdin=b"one\ntwo\nthree\n")
    assert cli("groups", "configure", "senders", "share.auto.offset.reset=earliest")[0] == 0
    assert cli("groups", "configure", "senders", "share.auto.offset.reset=tomorrow")[0] != 0
    assert cli("consume", "mails", "--share-group", "senders", "-n", "2")[:2] == (0, "one\ntwo\n")
    code, shown, _ = cli("groups", "describe", "senders")
    assert code == 0
    assert "share.auto.offset.reset = earliest" in shown
    assert ["mails-0", "2", "1"] in [line.split() for line in shown.splitlines()]
    assert ["senders", "Empty", "share"] in [line.split() for line in cli("groups", "list")[1].splitlines()]
    assert cli("consume", "mails", "-G", "senders", "-n", "1")[1] == "three\n"
    assert cli("consume", "mails", "-G", "senders", "-o", "latest")[0] != 0
    assert cli("groups", "delete", "senders", "--yes")[0] == 0
    assert "senders" not in cli("groups", "list")[1]


def test_a_share_group_is_moved_by_the_command_line(cli: Cli) -> None:
    cli("topics", "create", "bills", "-p", "1")
    cli("produce", "bills", stdin=b"one\ntwo\nthree\n")
    cli("groups", "configure", "payers", "share.auto.offset.reset=earliest")
    assert cli("consume", "bills", "-G", "payers")[1] == "one\ntwo\nthree\n"
    assert cli("groups", "export-offsets", "payers")[1] == "bills,0,3\n"
    code, shown, _ = cli("groups", "reset-offsets", "payers", "--to", "1", "--output", "json")
    assert (code, json.loads(shown)) == (0, [{"partition": "bills-0", "committed": 3, "new": 1}])
    assert cli("consume", "bills", "-G", "payers")[1] == "two\nthree\n"


def test_a_streams_group(cli: Cli, service: object) -> None:
    cli("topics", "create", "orders", "-p", "2")
    assert cli("groups", "configure", "app", "streams.initial.rebalance.delay.ms=0")[0] == 0
    assert cli("groups", "configure", "app", "streams.num.standby.replicas=3")[0] != 0
    schema = request_schema(ApiKey.STREAMS_GROUP_HEARTBEAT, 0)
    topology = {"epoch": 0, "subtopologies": [{"subtopology_id": "0", "source_topics": ["orders"]}]}
    joining = {
        "group_id": "app",
        "member_id": "m",
        "process_id": "p",
        "rebalance_timeout": 60_000,
        "topology": topology,
    }
    with odradek.Admin(**service.client_config) as admin:  # type: ignore[attr-defined]
        connection = admin._client._connection
        response = response_schema(ApiKey.STREAMS_GROUP_HEARTBEAT, 0)
        joined = admin._loop.call(connection.call(build(schema, joining), response, "StreamsGroupHeartbeat"))
        assert (joined.error_code, [active_task.partitions for active_task in joined.active_tasks]) == (0, [(0, 1)])
        described = admin.describe_streams_groups(["app"])["app"]
        assert (described.state, [sorted(member.tasks.active) for member in described.members]) == (
            "Stable",
            [[("0", 0), ("0", 1)]],
        )
        assert cli("groups", "reset-offsets", "app", "--topic", "orders", "--to", "earliest")[0] != 0
        code, shown, _ = cli("groups", "describe", "app", "--output", "json")
        leave = joining | {"member_epoch": -1, "topology": None}
        admin._loop.call(connection.call(build(schema, leave), response, "StreamsGroupHeartbeat"))
    group_shown = json.loads(shown)
    assert (code, group_shown["protocol"], group_shown["state"]) == (0, "streams", "Stable")
    assert [(member["topics"], member["assigned"]) for member in group_shown["members"]] == [
        (["orders"], ["0_0", "0_1"])
    ]
    assert ["app", "Empty", "streams"] in [line.split() for line in cli("groups", "list")[1].splitlines()]
    assert "app  streams  Empty" in cli("groups", "describe", "app")[1]
    assert cli("groups", "reset-offsets", "app", "--topic", "orders", "--to", "earliest")[0] == 0
    assert ["orders-1", "0", "0", "0"] in [
        line.split()[:4] for line in cli("groups", "describe", "app")[1].splitlines()
    ]
    assert cli("groups", "delete", "app", "--yes")[0] == 0


def test_a_mistyped_topic_makes_no_group(cli: Cli) -> None:
    """A share group was made for the typo, no record was found, and the exit code was 0."""
    for option in ("-g", "-G"):
        code, printed, said = cli("consume", "TYPO", option, "strays")
        assert (code, printed) == (1, "")
        assert said.startswith("odradek: UNKNOWN_TOPIC_OR_PARTITION: topic 'TYPO' does not exist")
    assert "strays" not in cli("groups", "list")[1]


def test_a_topic_may_be_waited_for(cli: Cli, service: object) -> None:
    command = [sys.executable, "-m", "odradek.cli", "consume", "later", "-G", "waiters", "-n", "1", "--wait-for-topic"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        cli("groups", "configure", "waiters", "share.auto.offset.reset=earliest")
        cli("topics", "create", "later", "-p", "1")
        cli("produce", "later", stdin=b"at last\n")
        assert process.communicate(timeout=60)[0] == b"at last\n"


def test_the_line_that_is_refused_is_named_with_what_was_written(cli: Cli) -> None:
    cli("topics", "create", "lined", "-p", "1", "-c", "max.message.bytes=2000")
    lines = b"a:1\nb:2\nnot a pair\nd:4\n"
    code, _, said = cli("produce", "lined", "-K", ":", stdin=lines)
    assert code == 1
    assert said.startswith("odradek: INVALID_RECORD: line 3: the line has no separator ':'")
    assert "; 2 records were written, 1 refused, and nothing after line 3 was read" in said
    assert cli("consume", "lined")[1].split() == ["1", "2"]
    code, _, said = cli("produce", "lined", "-K", ":", "--skip-errors", stdin=lines)
    assert (code, said.splitlines()[1:]) == (1, ["sent 3 records to lined", "refused 1 of 4 lines"])
    assert said.startswith("line 3: INVALID_RECORD: the line has no separator")
    assert cli("consume", "lined")[1].split() == ["1", "2", "1", "2", "4"]


def test_a_record_that_the_service_refuses_is_a_line_too(cli: Cli) -> None:
    cli("topics", "create", "narrow", "-p", "1", "-c", "max.message.bytes=2000")
    code, _, said = cli("produce", "narrow", "--skip-errors", stdin=b"1\n" + b"x" * 5000 + b"\n3\n")
    assert code == 1
    assert said.startswith("line 2: MESSAGE_TOO_LARGE: ")
    assert "sent 2 records to narrow\nrefused 1 of 3 lines\n" in said
    assert cli("consume", "narrow")[1].split() == ["1", "3"]


def test_names_of_topics_and_groups_are_completed(cli: Cli) -> None:
    cli("topics", "create", "complete-a")
    cli("topics", "create", "complete-b")
    cli("produce", "complete-a", stdin=b"1\n")
    cli("consume", "complete-a", "-g", "complete-group")

    def complete(words: str) -> list[str]:
        environment = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
        command = [sys.executable, "-c", "import sys; sys.argv[0] = 'odradek'; import odradek.cli as c; c.main()"]
        done = subprocess.run(
            command,
            env={**os.environ, "_ODRADEK_COMPLETE": "complete_bash", **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout.split()

    assert complete("odradek topics describe complete-") == ["complete-a", "complete-b"]
    assert complete("odradek consume complete-b") == ["complete-b"]
    assert complete("odradek groups describe complete-") == ["complete-group"]
    assert complete("odradek topics describe -b http://127.0.0.1:1 complete-") == [], "nobody answers: nothing to offer"


def test_all_configurations_of_a_topic_are_shown_with_what_they_mean(cli: Cli) -> None:
    cli("topics", "create", "shown", "-c", "retention.ms=1000")
    own = json.loads(cli("topics", "describe", "shown", "--output", "json")[1])["configs"]
    assert [(config["name"], config["value"]) for config in own] == [("retention.ms", "1000")]
    code, table, _ = cli("topics", "describe", "shown", "--defaults")
    assert code == 0
    assert "cleanup.policy" in table
    every = json.loads(cli("topics", "describe", "shown", "--defaults", "--output", "json")[1])["configs"]
    assert {config["name"]: config["is_default"] for config in every}["retention.ms"] is False
    assert all(config["documentation"] and config["type"] for config in every)
