"""Kafka Streams under exactly_once_v2 while it and the service are killed: each record is counted once.

Under the classic protocol, and in a streams group (KIP-1071): there two instances with two threads each count over a
repartition topic, with a standby of each count, and instances come, are stopped and are killed.

With transaction.offsets=predicted on its changelog and its output it knows the offsets of what it writes, and logs no
warning a record.

`make java`; ODRADEK_JAVA_KILLS makes it longer.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import odradek
import pytest

from tests.java.programs import JavaProgram, run_tool
from tests.support.clients.numbered import Sent, judge, read_back
from tests.support.clients.numbered_producers import Load, confluent, create_topic, wait_for_records
from tests.support.kafka.port import until
from tests.support.services.slow_service import RunningService, Unkindness

pytestmark = [pytest.mark.java, pytest.mark.timeout(1_800)]

KILLS = int(os.environ.get("ODRADEK_JAVA_KILLS", "6"))
PARTITIONS = 3
RECORDS_PER_S = 100
SERVICE_KILLED_EVERY = 3  # of the kills of the application


_NO_OFFSET = "Received offset=-1 in produce response"


@pytest.mark.parametrize("offsets", ["unknown", "predicted"])
def test_counts_over_kills(tmp_path: Path, offsets: str) -> None:
    rng = random.Random(1)
    predicted = "counts" if offsets == "predicted" else ""
    unkindness = Unkindness(late_every=50, late_ms=800)
    service = RunningService(tmp_path / "data", unkindness, transaction_offsets_predicted=predicted)
    with service:
        for topic in ("numbers", "counts"):
            create_topic(service.servers, topic, PARTITIONS)
        with Writing(service.servers) as writing:
            for kill in range(1, KILLS + 1):
                with application(tmp_path, service.servers, offsets) as app:
                    until(lambda app=app: "running" in app.lines, 120, app.tail())
                    time.sleep(rng.uniform(1, 5))
                    if kill % SERVICE_KILLED_EVERY == 0:
                        service.kill()
                        time.sleep(rng.uniform(0, 1))
                        service.start()
                        time.sleep(rng.uniform(1, 3))
        with application(tmp_path, service.servers, offsets) as app:
            total = sum(writing.sent.counts.values()) - len(writing.sent.refused)
            wait_for_records(service.servers, "counts", PARTITIONS, total, timeout_s=180)
            tail, log = app.tail(), app.log.read_text(errors="replace")

    logs = read_back(service.data_dir, "numbers")
    written = judge(writing.sent, logs["numbers"])
    assert written.is_exact, written
    keys = read_back(service.data_dir, "numbers", "counts", committed=True, keys=True)
    counts = read_back(service.data_dir, "counts", committed=True)["counts"]
    wrong, counted = compare(keys["numbers"].values(), keys["counts"].values(), counts.values())
    print(
        f"\nStreams: {KILLS} kills of the application, {KILLS // SERVICE_KILLED_EVERY} of the service: "
        f"{written.found} records, {counted} counts, {len(wrong)} keys wrong {dict(list(wrong.items())[:3])}, "
        f"offsets {offsets}: {log.count(_NO_OFFSET)} warnings"
    )
    assert wrong == {}, tail
    assert (_NO_OFFSET in log) == (offsets == "unknown")


def test_counts_in_a_streams_group(tmp_path: Path) -> None:
    rng = random.Random(2)
    with odradek.local(tmp_path / "data") as local, odradek.Admin(**local.client_config) as admin:  # type: ignore[operator]
        admin.alter_group_configs("counting", {"streams.num.standby.replicas": "1"})
    service = RunningService(
        tmp_path / "data",
        Unkindness(late_every=50, late_ms=300),
        group_session_timeout_ms=6_000,
        group_heartbeat_interval_ms=1_000,
    )
    with service, contextlib.ExitStack() as stack:
        for topic in ("numbers", "counts"):
            create_topic(service.servers, topic, PARTITIONS)
        lives = [stack.enter_context(streams_instance(tmp_path, service.servers, number)) for number in range(2)]
        with Writing(service.servers) as writing:
            until(lambda: all("running" in app.lines for app in lives), 120, lives[0].tail())
            for kill in range(1, KILLS + 1):
                time.sleep(rng.uniform(1, 5))
                victim = rng.randrange(2)
                if kill % 2:
                    lives[victim].kill()
                else:
                    lives[victim].process.terminate()  # leaves the group
                    lives[victim].process.wait(60)
                if kill % SERVICE_KILLED_EVERY == 0:
                    service.kill()
                    service.start()
                lives[victim] = stack.enter_context(streams_instance(tmp_path, service.servers, victim))
                until(lambda app=lives[victim]: "running" in app.lines, 120, lives[victim].tail())
            both = "hosts localhost:9000 localhost:9001"
            until(lambda: all(both in app.lines for app in lives), 60, "each instance knows the other's endpoint")
            shown = streams_groups(service.servers, "--describe", "--group", "counting", "--members")
            assert "ACTIVE" in shown, shown
            assert streams_groups(service.servers, "--list").split() == ["counting"]
            assert "counts-repartition" in streams_groups(service.servers, "--describe", "--group", "counting")
        total = sum(writing.sent.counts.values()) - len(writing.sent.refused)
        wait_for_records(service.servers, "counts", PARTITIONS, total, timeout_s=180)
        tail = "\n".join(app.tail() for app in lives)

    logs = read_back(service.data_dir, "numbers")
    written = judge(writing.sent, logs["numbers"])
    assert written.is_exact, written
    keys = read_back(service.data_dir, "numbers", "counts", committed=True, keys=True)
    counts = read_back(service.data_dir, "counts", committed=True)["counts"]
    counted_as = [[key + b"x" for key in partition] for partition in keys["numbers"].values()]
    wrong, counted = compare(counted_as, keys["counts"].values(), counts.values())
    print(
        f"\nStreams group: {KILLS} ends of instances, {KILLS // SERVICE_KILLED_EVERY} of the service: "
        f"{written.found} records, {counted} counts, {len(wrong)} keys wrong {dict(list(wrong.items())[:3])}"
    )
    assert wrong == {}, tail


def streams_groups(servers: str, *arguments: str) -> str:
    """The output of kafka-streams-groups.sh."""
    main = "org.apache.kafka.tools.streams.StreamsGroupCommand"
    patience = ("--timeout", "60000") if "--describe" in arguments else ()  # 5 s are few on a loaded machine
    return run_tool(main, "--bootstrap-server", servers, *arguments, *patience)


def streams_instance(folder: Path, servers: str, number: int) -> JavaProgram:
    arguments = (servers, "counting", "numbers", "counts", str(folder / f"state-{number}"), "unknown")
    options = ("group.protocol=streams", f"application.server=localhost:{9000 + number}")
    return JavaProgram("odradek.CountingStream", *arguments, *options, log=folder / f"streams-{number}.log")


class Writing:
    """Writes keyed records in a thread while the block runs."""

    def __init__(self, servers: str) -> None:
        self.sent = Sent()
        self._ended = threading.Event()
        load = Load("numbers", PARTITIONS, records_per_s=RECORDS_PER_S, keys=5, ended=self._ended)
        self._thread = threading.Thread(target=lambda: self.sent.merge(confluent(servers, load)), name="writing")

    def __enter__(self) -> Writing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def application(folder: Path, servers: str, offsets: str) -> JavaProgram:
    arguments = (servers, "counting", "numbers", "counts", str(folder / "state"), offsets)
    return JavaProgram("odradek.CountingStream", *arguments, log=folder / "streams.log")


def compare(
    inputs: Iterable[list[bytes]], keys: Iterable[list[bytes]], counts: Iterable[list[bytes]]
) -> tuple[dict[bytes, str], int]:
    """Return the errors by key: its counts must be 1 to n, in order, of n records; and how many counts there are."""
    expected = Counter(key for partition in inputs for key in partition)
    counts_by_key: dict[bytes, list[int]] = defaultdict(list)
    for partition_keys, partition_counts in zip(keys, counts, strict=True):
        for key, count in zip(partition_keys, partition_counts, strict=True):
            counts_by_key[key].append(int(count))
    wrong = {}
    for key in expected | Counter(counts_by_key.keys()):
        if counts_by_key[key] != list(range(1, expected[key] + 1)):
            counts = counts_by_key[key]
            first = next((i for i, count in enumerate(counts) if count != i + 1), len(counts))
            wrong[key] = f"{expected[key]} records, {len(counts)} counts, from {first}: {counts[first:][:5]}"
    return wrong, sum(map(len, counts_by_key.values()))
