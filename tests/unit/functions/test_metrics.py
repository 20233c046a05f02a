"""The numbers that operators look at: as Prometheus text, as CloudWatch metrics, and what they are made of."""

from __future__ import annotations

import json

from odradek.engine.maintenance.backlog import Backlog
from odradek.errors import ErrorCode
from odradek.functions.metrics import Metrics
from odradek.functions.telemetry import Invocation, backlog_line
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition
from odradek.ports.meter import Usage
from odradek.testing.faults import Fault

from tests.support.engine import batch, memory_store, produce


def parse_text(text: str) -> dict[str, float]:
    """Samples by their name with labels; every sample has a type before it."""
    samples, typed = {}, set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            typed.add(line.split()[2])
        elif not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            family = name.partition("{")[0]
            assert family in typed or family.rpartition("_")[0] in typed, line
            samples[name] = float(value)
    return samples


def invocation(**values: object) -> Invocation:
    return Invocation("c", "produce", "r", **{"api": "PRODUCE", "duration_ms": 4.0, **values})  # type: ignore[arg-type]


def test_requests_errors_bytes_and_billable_units() -> None:
    metrics = Metrics(lambda: Usage(table_write_units=2, object_put_requests=1))
    metrics.observe(invocation(bytes_in=10, bytes_out=3))
    metrics.observe(invocation(status=413, error=ErrorCode.MESSAGE_TOO_LARGE.name, bytes_in=5))
    samples = parse_text(metrics.text())
    labels = 'function="produce",api="PRODUCE"'
    assert samples[f'odradek_requests_total{{{labels},status="200"}}'] == 1
    assert samples[f'odradek_request_errors_total{{{labels},error="MESSAGE_TOO_LARGE"}}'] == 1
    assert samples['odradek_request_bytes_total{function="produce",direction="in"}'] == 15
    assert samples['odradek_billable_total{unit="table_write_units"}'] == 2
    assert samples['odradek_billable_total{unit="object_put_requests"}'] == 1


def test_durations_are_a_cumulative_histogram() -> None:
    metrics = Metrics()
    for duration_ms in (0.5, 4.0, 4.5, 60_000.0):
        metrics.observe(invocation(duration_ms=duration_ms))
    samples = parse_text(metrics.text())
    name, labels = "odradek_request_duration_seconds", 'function="produce",api="PRODUCE"'
    assert [samples[f'{name}_bucket{{{labels},le="{le}"}}'] for le in ("0.001", "0.0025", "0.005", "30.0", "+Inf")] == [
        1,
        1,
        3,
        3,
        4,
    ]
    assert samples[f"{name}_count{{{labels}}}"] == 4


def test_a_hostile_name_stays_in_its_label() -> None:
    text = Metrics().text(Backlog(group_lag={'g"} 1\nodradek_fake 7\\': 3}))
    assert "\nodradek_fake" not in text
    assert 'group="g\\"} 1\\nodradek_fake 7\\\\"' in text


async def test_what_is_left_to_do_is_counted() -> None:
    store = memory_store()
    engine = store.engine(spill_entries=1, head_bytes_max=400)
    await engine.topics.create("t", 2)
    for _ in range(3):
        assert not (await produce(engine, "t", 0, batch([b"a", b"b"]))).error
    await engine.offsets.commit("g", {TopicPartition("t", 0): OffsetAndMetadata(1)})
    backlog = await engine.backlogs.look()
    assert (backlog.partitions, backlog.unmerged_records, backlog.group_lag) == (2, 6, {"g": 5})
    assert 1 <= backlog.tail_entries_max <= 3
    assert backlog.unread == 0


async def test_what_cannot_be_read_is_said_and_fails_nothing() -> None:
    store = memory_store(per_head=1)
    engine = store.engine()
    await engine.topics.create("t", 2)
    store.log.script["get_many", 1] = Fault.UNAVAILABLE
    assert (await engine.backlogs.look()).unread == 1
    done = store.catalog.count("query")
    for attempt in range(1, 6):  # a list of topics that is throttled once is read again
        store.catalog.script["query", done + attempt] = Fault.UNAVAILABLE
    assert (await engine.backlogs.look()).unread == 1


def test_the_backlog_is_a_line_with_the_lag_of_every_group() -> None:
    line = json.loads(backlog_line(Backlog(3, 2, 10, 60, {"g": 5})))
    assert (line["message"], line["group_lag_records_max"], line["group_lag"]) == ("backlog", 5, {"g": 5})
    assert "_aws" not in line, "a metric is billed by the month"
