"""Java's own producer, at its defaults, on stores that are late, fail, stall or move: exact.

`make java`; ODRADEK_JAVA_RECORDS and ODRADEK_JAVA_S make it longer or shorter.
"""

from __future__ import annotations

import os
from collections import Counter
from functools import partial
from pathlib import Path

import odradek
import pytest

from tests.java.programs import JavaProgram, numbered_producer, producer_perf
from tests.support.clients.numbered import Numbered, Sent, judge, read_back
from tests.support.clients.numbered_producers import Load, create_topic
from tests.support.kafka import port
from tests.support.services import unkind
from tests.support.services.slow_service import RunningService, Unkindness
from tests.support.services.unkind import Trouble

pytestmark = pytest.mark.java

RECORDS = int(os.environ.get("ODRADEK_JAVA_RECORDS", "20000"))
SECONDS = float(os.environ.get("ODRADEK_JAVA_S", "20"))
LATE_PUTS = Unkindness(late_every=25, late_ms=800, late_methods=("put",))
TROUBLES = {
    "failing": unkind.FAILING,
    "stalled": unkind.STALLED,
    "moving": unkind.MOVING,
    "crashing": unkind.CRASHING,
    "killed": unkind.KILLED,
    "everything": unkind.EVERYTHING,
    "very-late": unkind.VERY_LATE,
}


def run(tmp_path: Path, trouble: Trouble, load: Load, name: str, **config: str) -> unkind.Findings:
    (tmp_path / "data").mkdir()
    return unkind.run(tmp_path / "data", trouble, partial(numbered_producer, tmp_path, **config), load, f"java, {name}")


@pytest.mark.parametrize(("records", "partitions"), [(RECORDS, 1), (RECORDS, 6), (3 * RECORDS, 3)])
def test_every_25th_put_is_late(tmp_path: Path, records: int, partitions: int) -> None:
    findings = run(tmp_path, Trouble(LATE_PUTS), Load("t", partitions, records, size=1_024, outstanding=0), "late PUTs")
    assert findings.is_exact
    assert findings.acknowledged == records


@pytest.mark.parametrize("trouble", TROUBLES)
def test_trouble(tmp_path: Path, trouble: str) -> None:
    findings = run(tmp_path, TROUBLES[trouble], Load("t", 3, seconds=SECONDS, size=1_024, outstanding=1_000), trouble)
    assert findings.is_exact
    assert findings.acknowledged == findings.sent


def test_small_batches_and_stalls(tmp_path: Path) -> None:
    load = Load("t", 3, seconds=SECONDS, records_per_s=300)
    findings = run(tmp_path, unkind.STALLED, load, "small batches, stalled", batch_size="100")
    assert findings.is_exact
    assert findings.acknowledged == findings.sent


def test_a_topic_recreated_under_the_producer(tmp_path: Path) -> None:
    load = Load("t", 3, seconds=SECONDS, size=1_024, outstanding=1_000)
    findings = run(tmp_path, unkind.RECREATED, load, "recreated")
    assert findings.is_exact
    assert findings.acknowledged == findings.sent
    assert findings.found > 0


def test_producer_perf(tmp_path: Path) -> None:
    """As users run it. All its records are alike, so they are only counted."""
    with RunningService(tmp_path / "data", LATE_PUTS) as service:
        create_topic(service.servers, "t", 1)
        errors = producer_perf(tmp_path, service.servers, "t", RECORDS, "--record-size", "1024")
    record_count = len(read_back(tmp_path / "data", "t")["t"][0])
    print(f"producer-perf: sent {RECORDS}  errors {len(errors)}  found {record_count}\n  the store {service.counts}")
    assert errors == []
    assert record_count == RECORDS


def test_producer_perf_with_numbered_records(tmp_path: Path) -> None:
    """Its payloads are numbers, and batches are small so that there are as many of them."""
    with RunningService(tmp_path / "data", LATE_PUTS) as service:
        create_topic(service.servers, "t", 1)
        props = ("batch.size=400", "linger.ms=0")
        errors = producer_perf(tmp_path, service.servers, "t", RECORDS, "--payload-monotonic", props=props)
    sent = Sent(Counter({("perf", 0): RECORDS}))
    log = [Numbered("perf", 0, int(value)).value() for value in read_back(tmp_path / "data", "t")["t"][0]]
    findings = judge(sent, {0: log})
    print(f"producer-perf: errors {len(errors)}  {findings}\n  the store {service.counts}")
    assert errors == []
    assert findings.is_exact


def test_a_commit_that_cannot_keep_its_offset_is_aborted_and_repeated(tmp_path: Path) -> None:
    """transaction.offsets=predicted, and another producer that appends before the commit."""
    with (
        port.kafka_service(transaction_offsets_predicted="told") as service,
        odradek.Admin(**service.client_config) as admin,
    ):
        admin.create_topics([odradek.NewTopic("told", 1)])
        arguments = (service.kafka_bootstrap_servers, "told")
        with JavaProgram("odradek.ToldOffsets", *arguments, log=tmp_path / "told.log") as program:
            assert program.wait(120) == ["told 0", "TransactionAbortableException", "told 1", "committed"]
        assert [message.value for message in port.sdk_consume(service, "told", 2)] == [b"of another", b"kept"]
