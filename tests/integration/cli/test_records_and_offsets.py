"""produce, consume, offsets, reset of groups and perf, as a user types them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import odradek
import pytest
from odradek.cli import run
from odradek.client.messages.produce import produce_request
from odradek.model.topic_partition import TopicPartition

from tests.support.engine import batch
from tests.support.kafka.messages import encode_message, request_frame
from tests.support.kafka.poison import rebuilt
from tests.support.kafka.raw import RawConnection

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def service() -> Iterator[object]:
    with odradek.local(kafka_port=0) as service:  # type: ignore[operator]
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


def test_keys_headers_and_formats(cli: Cli) -> None:
    cli("topics", "create", "forms", "-p", "1")
    code, _, said = cli("produce", "forms", "-k", "K", "-H", "a=1", "-H", "none", stdin=b"one\ntwo\n")
    assert (code, said) == (0, "sent 2 records to forms\n")
    assert cli("consume", "forms", "--format", "%t-%p@%o %k=%s [%h] %K/%S%%\\t\\x21\\n")[1] == (
        "forms-0@0 K=one [a=1,none=] 1/3%\t!\nforms-0@1 K=two [a=1,none=] 1/3%\t!\n"
    )
    code, _, said = cli("consume", "forms", "--format", "%q")
    assert code == 2
    assert "unknown token '%q'" in said


def test_json_lines_go_from_topic_to_topic(cli: Cli) -> None:
    cli("topics", "create", "from", "-p", "1")
    cli("topics", "create", "into", "-p", "1")
    cli("produce", "from", "-H", "h=x", "-K", ":", stdin=b"a:1\nb:2\n")
    lines = cli("consume", "from", "--json")[1]
    cli("produce", "into", "--json", stdin=lines.encode() + b'{"value": {"n": 1}, "timestamp_ms": 5}\n{}\n')
    copied = [json.loads(line) for line in cli("consume", "into", "--json")[1].splitlines()]
    assert copied[:2] == [json.loads(line) | {"topic": "into"} for line in lines.splitlines()]
    assert (copied[2]["value"], copied[2]["timestamp_ms"]) == ('{"n":1}', 5)
    assert (copied[3]["key"], copied[3]["value"]) == (None, None)
    assert cli("produce", "into", "--json", stdin=b"no json\n")[0] == 1


def test_bytes_that_are_no_text_survive_json_lines(cli: Cli, service: object) -> None:
    cli("topics", "create", "binary", "-p", "1")
    cli("topics", "create", "binary-copy", "-p", "1")
    config = service.client_config  # type: ignore[attr-defined]
    sent = (b"\xff\x00\\xff", b"\x80\n\r", (("raw", b"\xfe"), ("text", b"t"), ("null", None)))
    with odradek.Producer(**config) as producer:
        producer.send("binary", sent[1], sent[0], headers=sent[2]).result(30)
    lines = cli("consume", "binary", "--json")[1]
    assert "_base64" in lines
    assert cli("produce", "binary-copy", "--json", stdin=lines.encode())[0] == 0
    with odradek.Consumer(**config) as consumer:
        copy = consumer.read_at("binary-copy", 0, 0)
    assert (copy.key, copy.value, tuple(copy.headers)) == sent


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"valeu": "x"}', "unknown field 'valeu'"),
        (b"[1]", "it is not an object"),
        (b'{"timestamp_ms": "soon"}', "soon"),
        (b'{"value": "x", "value_base64": "eA=="}', "both value and value_base64"),
        (b'{"value_base64": "?"}', "base64"),
        (b'{"headers": [["a", "b", "rot13"]]}', "not 'rot13'"),
        (b'{"headers": [[]]}', "invalid record in JSON"),
        (b"\xff", "invalid record in JSON"),
    ],
)
def test_lines_that_are_no_record_write_nothing(cli: Cli, line: bytes, reason: str) -> None:
    cli("topics", "create", "strict", "-p", "1")
    code, _, said = cli("produce", "strict", "--json", stdin=line + b"\n")
    assert code == 1
    assert said.startswith("odradek: INVALID_RECORD: ")
    assert reason in said
    assert cli("consume", "strict")[1] == ""


def test_ranges_by_offset_and_time(cli: Cli) -> None:
    cli("topics", "create", "times", "-p", "1")
    lines = "".join(json.dumps({"value": str(n), "timestamp_ms": 1_000_000 + n * 1000}) + "\n" for n in range(10))
    cli("produce", "times", "--json", stdin=lines.encode())

    def read(*options: str) -> str:
        return "".join(cli("consume", "times", *options)[1].split())

    assert read("-o", "2", "-u", "5") == "234"
    assert read("-o", "-3") == "789"
    assert read("-u", "-8") == "01"
    assert read("-o", "@1004000", "-u", "@1006000") == "45"
    assert read("-o", "@1970-01-01T00:16:48") == "89"
    assert read("-o", "@9999999999999") == ""
    assert read("-o", "99") == ""
    code, _, said = cli("consume", "times", "-o", "@never")
    assert (code, "invalid time" in said) == (2, True)


def test_offsets_of_a_topic(cli: Cli) -> None:
    cli("topics", "create", "places", "-p", "2")
    cli("produce", "places", "-p", "1", stdin=b"a\nb\n")
    assert cli("offsets", "places")[1].splitlines() == [
        "partition  first  next  records",
        "        0      0     0        0",
        "        1      0     2        2",
    ]
    assert cli("offsets", "places", "--time", "0")[1].splitlines()[2].split() == ["1", "0", "2", "2", "0"]
    assert json.loads(cli("offsets", "places", "--output", "json")[1])[1] == {
        "partition": 1,
        "first": 0,
        "next": 2,
        "records": 2,
    }
    assert cli("offsets", "places", "--output", "yaml")[1].splitlines()[:2] == ["- partition: 0", "  first: 0"]


def test_a_group_is_moved_and_a_dry_run_moves_nothing(cli: Cli, tmp_path: Path) -> None:
    cli("topics", "create", "moved", "-p", "2")
    for partition in "01":
        cli("produce", "moved", "-p", partition, stdin=b"a\nb\nc\n")
    cli("consume", "moved", "-g", "movers")
    before = cli("groups", "export-offsets", "movers")[1]
    assert before == "moved,0,3\nmoved,1,3\n"
    code, shown, said = cli("groups", "reset-offsets", "movers", "--to", "earliest", "--dry-run")
    assert (code, said) == (0, "nothing was committed\n")
    rows = [line.split() for line in shown.splitlines()]
    assert rows == [["partition", "committed", "new"], ["moved-0", "3", "0"], ["moved-1", "3", "0"]]
    assert cli("groups", "export-offsets", "movers")[1] == before
    cli("groups", "reset-offsets", "movers", "--shift", "-1")
    assert cli("groups", "export-offsets", "movers")[1] == "moved,0,2\nmoved,1,2\n"
    cli("groups", "reset-offsets", "movers", "-t", "moved:1", "--to", "@0")
    assert cli("groups", "export-offsets", "movers")[1] == "moved,0,2\nmoved,1,0\n"
    file = tmp_path / "offsets.csv"
    file.write_text("moved,0,1\nmoved,1,99\n")
    cli("groups", "reset-offsets", "movers", "--file", str(file))
    assert cli("groups", "export-offsets", "movers")[1] == "moved,0,1\nmoved,1,3\n"
    assert cli("consume", "moved", "-g", "movers")[1].split() == ["b", "c"]
    cli("groups", "reset-offsets", "unborn", "-t", "moved", "--to", "latest")
    assert cli("groups", "export-offsets", "unborn")[1] == before
    assert cli("groups", "delete", "unborn", "-y")[0] == 0


def test_a_group_is_moved_to_a_time_in_batches_without_a_largest_timestamp(cli: Cli, service: object) -> None:
    """sarama up to 1.45.0 writes -1 there; the time of every record is found all the same."""
    cli("topics", "create", "timed", "-p", "1")
    t0 = 1_700_000_000_000
    with RawConnection(service.kafka_bootstrap_servers) as connection:  # type: ignore[attr-defined]
        for at_ms in (t0, t0 + 10_000):
            sent = rebuilt(batch([b"a", b"b", b"c"], timestamp_ms=at_ms), max_ms=-1)
            request = produce_request([(TopicPartition("timed", 0), sent)], acks=-1, timeout_ms=5_000)
            connection.send(request_frame(0, 9, encode_message(request)))
            connection.receive()
    for to, offset in ((f"@{t0 + 1}", 1), (f"@{t0 + 3}", 3), (f"@{t0 + 10_002}", 5), (f"@{t0 + 10_003}", 6)):
        assert cli("groups", "reset-offsets", "returners", "-t", "timed", "--to", to)[0] == 0
        assert cli("groups", "export-offsets", "returners")[1] == f"timed,0,{offset}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("groups", "reset-offsets", "x", "--to", "earliest", "--shift", "1"),
        ("groups", "reset-offsets", "never-seen", "--to", "earliest"),
        ("groups", "reset-offsets", "x", "--to", "sideways"),
        ("consume", "x", "-g", "g", "-o", "5"),
        ("consume", "x", "--json", "--format", "%s"),
        ("produce", "x", "--json", "-k", "key"),
    ],
)
def test_wrong_usage_is_one_line(cli: Cli, arguments: tuple[str, ...]) -> None:
    code, _, said = cli(*arguments)
    assert code == 2
    assert said.startswith("odradek: INVALID_CONFIG: ")
    assert said.count("\n") == 1


def test_a_group_with_members_is_left_alone(cli: Cli, service: object) -> None:
    cli("topics", "create", "busy", "-p", "1")
    config = service.client_config  # type: ignore[attr-defined]
    with odradek.Consumer(**config, group_id="workers") as consumer:
        consumer.subscribe(["busy"])
        while not consumer.assignment():
            consumer.poll(200)
        code, _, said = cli("groups", "reset-offsets", "workers", "-t", "busy", "--to", "latest")
    assert code == 1
    assert said.startswith("odradek: NON_EMPTY_GROUP: ")


@pytest.mark.parametrize("flags", [(), ("--tables",)])
def test_perf_tells_rates(cli: Cli, flags: tuple[str, ...]) -> None:
    topic = f"perf{len(flags)}"
    cli("topics", "create", topic, "-p", "2")
    code, said, _ = cli("perf", "produce", topic, "-n", "500", "-s", "10", *flags)
    assert code == 0
    assert said.startswith("500 records in ")
    code, said, _ = cli("perf", "consume", topic, *flags)
    assert code == 0
    assert said.startswith("500 records in ")
