"""The source and sink with the newest PySpark that the extra allows; the lock, as Glue 6.0, has 4.1.

Slow: PySpark is installed from the package index, and streams.
"""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import pytest

from tools.package import ROOT, build_wheels, run_uv

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

_PROGRAM = """
import sys, tempfile
from pathlib import Path
from tests.support.spark.session import LiveLog, make_session

tempfile.tempdir = sys.argv[1]  # another Spark than that of other tests
spark = make_session()
folder = Path(sys.argv[1])
seen = []


def run(trigger, **options):
    stream = spark.readStream.format("odradek").options(
        **log.options, subscribe="t", startingOffsets="earliest", **options
    ).load()
    writer = stream.writeStream.foreachBatch(lambda frame, _: seen.append([int(r.value) for r in frame.collect()]))
    query = writer.option("checkpointLocation", str(folder / "c")).trigger(**trigger).start()
    if "availableNow" in trigger:
        query.awaitTermination()
    else:
        query.processAllAvailable()
        query.stop()


def put(first, end):
    for i in range(first, end):
        log.produce("t", i % 2, [(b"k", b"%d" % i)])


with LiveLog(folder / "store", item_bytes_max=500) as log:
    log.create("t", 2)
    put(0, 50)
    run({"availableNow": True}, maxOffsetsPerTrigger="20")
    assert [len(each) for each in seen] == [20, 20, 10], seen
    put(50, 60)
    run({"availableNow": True})
    put(60, 70)
    run({"processingTime": "0 seconds"})
    run({"availableNow": True})
    assert sorted(value for each in seen for value in each) == list(range(70)), seen
    batch = spark.read.format("odradek").options(**log.options, subscribe="t").load()
    assert batch.where("partition = 1 AND offset >= 5").count() == 30
    import pyspark

    print(pyspark.__version__)
spark.stop()
"""


def test_streams_are_limited_and_exact(tmp_path: Path) -> None:
    wheels = build_wheels(tmp_path / "wheels")
    python = tmp_path / "environment" / "bin" / "python"
    run_uv("venv", "--quiet", str(tmp_path / "environment"))
    wanted = [f"odradek[spark,local] @ {wheels['odradek'].as_uri()}", "pytest", "hypothesis"]
    run_uv("pip", "install", "--quiet", "--python", str(python), "--find-links", str(tmp_path / "wheels"), *wanted)
    done = subprocess.run(
        [str(python), "-c", _PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=ROOT,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    extras = tomllib.loads((ROOT / "sdk" / "pyproject.toml").read_text())["project"]["optional-dependencies"]["spark"]
    [allowed] = [requirement for requirement in extras if requirement.startswith("pyspark")]
    below = allowed.rpartition("<")[2].split(".")
    assert done.stdout.split()[-1].split(".")[:2] == [below[0], str(int(below[1]) - 1)], "the newest that is allowed"
