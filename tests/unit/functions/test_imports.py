"""What a cold function does not import. Each of these would be paid by every user at every cold start."""

from __future__ import annotations

import json
import subprocess
import sys

HEAVY = {"aiohttp", "typer", "rich", "boto3", "numpy", "numba", "pyarrow", "pandas", "pyspark", "sqlite3", "msgpack"}
FUNCTION = (
    "odradek.functions.handler, odradek.functions.maintenance, odradek.functions.maintainer, odradek.adapters.aws, "
    "odradek.system, odradek.engine.engine, odradek.dispatcher"
)


def test_a_function_imports_nothing_heavy() -> None:
    code = f"import sys, json, {FUNCTION}; print(json.dumps(sorted(sys.modules)))"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = json.loads(child.stdout)
    assert {name.partition(".")[0] for name in modules} & HEAVY == set()
    rooms = {name.split(".")[1] for name in modules if name.startswith("odradek.")}
    assert rooms & {"client", "cli", "local", "spark", "columnar", "testing"} == set()
