"""compact_topic on a real Spark leaves what the engine's own compactor leaves (tests/unit/spark has the rules).

Slow: a Spark job that shuffles, several times.
"""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from odradek.engine.audit.store import audit_store
from odradek.errors import KafkaError
from odradek.glue_jobs.compact_topic import job as compact_topic_job

from tests.support.stores.compaction_store import PARTITIONS, TOPIC, add, compare, make_store, using

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def run_job(spark: SparkSession, folder: Path, **arguments: object) -> dict[str, int]:
    made = compact_topic_job.Arguments(store=f"embedded:{folder}", topic=TOPIC, **arguments)  # type: ignore[arg-type]
    return compact_topic_job.run(spark, made, threading.Event())


def test_what_is_left_is_what_the_engine_leaves(spark: SparkSession, tmp_path: Path) -> None:
    folder, other = tmp_path / "store", tmp_path / "other"
    make_store(folder)
    shutil.copytree(folder, other)
    report = using(other, lambda opened: opened.keep_up(opened.compactor()))
    assert not report.failures
    done = run_job(spark, folder, groups_at_once=100)
    assert done["compaction_passes"] == PARTITIONS
    assert done["segments_compacted"] > PARTITIONS
    compare(folder, other)
    using(folder, lambda opened: add(opened, 2))
    assert run_job(spark, folder, partitions=("1",))["compaction_passes"] == 1
    with pytest.raises(KafkaError, match="partitions 0 to 1, not 7"):
        run_job(spark, folder, partitions=("7",))
    audit = using(folder, lambda opened: audit_store(opened.engine))
    assert not audit.findings, audit
