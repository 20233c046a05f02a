"""Work that a Python worker of Spark does once, and not for each task."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

_WORKER = """
import gc, importlib, sys
sys.path.insert(0, sys.argv[1])
importlib.import_module("org")  # looks into the jar, as any import does that is found nowhere before it
from odradek.spark.workers.settle import settle
assert any("spark-core" in path for path in sys.path_importer_cache)
settle()
assert not any("spark-core" in path for path in [*sys.path, *sys.path_importer_cache])
frozen = gc.get_freeze_count()
assert frozen > 1_000
kept = [[] for _ in range(100_000)]
settle()
assert gc.get_freeze_count() == frozen  # what tasks make is collected as ever
import json.tool  # the path is whole
"""


def test_it_forgets_the_jar_and_freezes_what_is_imported(tmp_path: Path) -> None:
    jar = tmp_path / "spark-core_2.13-4.1.1.jar"
    with zipfile.ZipFile(jar, "w") as made:
        made.writestr("org/", b"")
        made.writestr("org/apache/Some.class", b"")
    run = subprocess.run(
        [sys.executable, "-c", _WORKER, str(jar)], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr
