"""A query's progress, as a line and for CloudWatch; when a job rests."""

from __future__ import annotations

import json
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from odradek.model.topic_partition import TopicPartition
from odradek.spark.jobs import listener as listener_module
from odradek.spark.jobs.late import watermark_ms
from odradek.spark.jobs.listener import ProgressListener, behind
from odradek.spark.jobs.progress import embedded_metric, job_metrics, progress_line, reached, records_of
from odradek.spark.jobs.streams import _rest, summary

NOW_MS = 1_700_000_100_000


def progress(**more: Any) -> dict[str, Any]:
    end = json.dumps({"offsets": {"t": {"0": 30, "1": 5}}, "initial": {"t": {"0": 10, "1": 0}}})
    return {
        "batchId": 0,
        "numInputRows": 50,
        "processedRowsPerSecond": 12.5,
        "durationMs": {"triggerExecution": 2000},
        "eventTime": {"watermark": "2023-11-14T22:10:00.000Z"},
        "stateOperators": [{"numRowsTotal": 4, "memoryUsedBytes": 1_500_000, "numRowsDroppedByWatermark": 3}],
        "sources": [{"startOffset": None, "endOffset": end}],
        "observedMetrics": {
            "odradek_read_0": {"newest": "2023-11-14T22:13:20.000Z"},
            "odradek_parsed_a": {"malformed": 2},
            "odradek_corrupt_0": {"corrupt": 1},
        },
        **more,
    }


def test_records_are_counted_by_offsets_however_often_a_plan_reads_them() -> None:
    assert records_of(progress()) == 25
    later = {"startOffset": {"offsets": {"t": {"0": 30}}}, "endOffset": {"offsets": {"t": {"0": 33, "1": 2}}}}
    assert records_of(progress(sources=[later])) == 5
    assert records_of(progress(sources=[{"startOffset": None, "endOffset": {"logOffset": 3}}])) == 50
    assert reached(progress()) == {TopicPartition("t", 0): 30, TopicPartition("t", 1): 5}


def test_a_line_for_a_person() -> None:
    line = progress_line(job_metrics("w", progress(), now_ms=NOW_MS, lag_offsets=1_200))
    assert line == (
        "w batch 0: 25 rows, 12 rows/s, 2.0 s, watermark 2023-11-14T22:10:00.000Z, state 4 rows 1.5 MB, 3 late, "
        "1 corrupt batches skipped, lag 1,200 offsets 100 s"
    )


def test_a_line_for_cloudwatch_declares_each_metric_that_it_holds() -> None:
    document = json.loads(embedded_metric(job_metrics("w", progress(), now_ms=NOW_MS, lag_offsets=0), now_ms=NOW_MS))
    [directive] = document["_aws"]["CloudWatchMetrics"]
    assert document["_aws"]["Timestamp"] == NOW_MS
    assert (directive["Namespace"], directive["Dimensions"], document["Job"]) == ("Odradek/Jobs", [["Job"]], "w")
    names = {metric["Name"] for metric in directive["Metrics"]}
    assert names == {name for name in document if name not in ("_aws", "Job", "BatchId", "Watermark")}
    assert (document["LagTime"], document["WatermarkAge"], document["StateRows"]) == (0.0, 300.0, 4)


def test_what_is_not_known_is_left_out() -> None:
    bare = job_metrics("w", {"batchId": 7}, now_ms=NOW_MS, lag_offsets=None)
    assert progress_line(bare) == "w batch 7: 0 rows, 0 rows/s, 0.0 s"
    names = json.loads(embedded_metric(bare, now_ms=NOW_MS))
    assert "LagOffsets" not in names
    assert "WatermarkAge" not in names


def test_a_partition_that_was_not_read_yet_is_behind_whole() -> None:
    ends = {TopicPartition("t", 0): 40, TopicPartition("t", 2): 7}
    assert behind(reached(progress()), ends) == 17


def test_a_summary_adds_up() -> None:
    assert summary([progress(), progress(numInputRows=0, sources=[])]) == {
        "batches": 1,
        "records": 25,
        "malformed": 4,
        "corrupt_batches": 2,
        "late_rows_dropped": 6,
    }


def test_a_resting_job_looks_ever_less_often_until_the_log_grows() -> None:
    waited: list[float] = []

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waited.append(timeout or 0)
            return False

    looks = iter([4, 4, 4, 4, 4, 4, 5])
    reports: list[int] = []
    _rest(Stop(), {"t-0": 4}, lambda: {"t-0": next(looks)}, 8.0, lambda: reports.append(1))
    bounds = [1, 2, 4, 8, 8, 8]
    assert len(reports) == len(bounds), "a job that rests is not silent"
    assert len(waited) == len(bounds)
    assert all(bound / 2 <= pause <= bound for bound, pause in zip(bounds, waited, strict=True))


def test_the_watermark_of_a_micro_batch_is_read_from_the_offset_log() -> None:
    log = 'v1\n{"batchWatermarkMs":1700000000000,"batchTimestampMs":5,"conf":{}}\n{"offsets": {}}'
    assert watermark_ms(log) == 1_700_000_000_000


class Ends:
    """Stands for the ends of the inputs."""

    def __init__(self) -> None:
        self.end = 40

    def now(self) -> dict[TopicPartition, int]:
        return {TopicPartition("t", 0): self.end, TopicPartition("t", 1): 5}


def test_a_job_that_waits_says_every_minute_how_far_it_is_behind(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    times = iter([0.0, 59.0, 60.0, 61.0, 130.0])
    clock = SimpleNamespace(monotonic=lambda: next(times), time_ns=time.time_ns)
    monkeypatch.setattr(listener_module, "time", clock)  # the module's own: the process's is other threads', too
    ends = Ends()
    listener = ProgressListener("w", ends, form="emf")  # type: ignore[arg-type]
    listener.position = {TopicPartition("t", 0): 30, TopicPartition("t", 1): 5}
    listener.report()
    assert capsys.readouterr().out == ""
    listener.report()
    listener.report()
    [line] = capsys.readouterr().out.splitlines()
    document = json.loads(line)
    assert (document["Job"], document["LagOffsets"], document["LagTime"]) == ("w", 10.0, 60.0)
    [directive] = document["_aws"]["CloudWatchMetrics"]
    assert {metric["Name"] for metric in directive["Metrics"]} == {"LagOffsets", "LagTime"}
    ends.end = 30
    listener.report()
    assert json.loads(capsys.readouterr().out)["LagTime"] == 0.0, "nothing is left to read"
