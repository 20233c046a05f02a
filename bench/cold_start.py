"""How long is a cold start? Process start to a handler that is ready, for each packaged function.

Runs what `make package` builds (for this machine, with bytecode), isolated from the development environment: the path
holds the function's code and the layer, as on Lambda. Best of N processes, since other load only ever adds; CPU time is
shown beside wall time for the same reason.

    imports    odradek, kio and all that they import, botocore excepted
    botocore   importing botocore
    clients    making the DynamoDB and the S3 client (their descriptions are read and compiled)
    ready      the process' start to the handler, the interpreter's own start included

The line "interpreter" is Python alone: about 11 ms on an idle machine, so it tells how loaded this one is.

    python -m bench.cold_start [--runs 7]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

from odradek.functions.environment import (
    BUCKET,
    CATALOG_TABLE,
    GROUPS_TABLE,
    HANDLERS,
    LOG_TABLE,
    QUEUE_URL,
    REGION,
    ROWS_TABLE,
    WAKE_QUEUE_URL,
)

from tools.package import Target, build

RESULTS = Path(__file__).parent / "results" / "cold_start.json"
COLUMNS = ("imports_ms", "botocore_ms", "clients_ms", "ready_ms", "cpu_ms")

# Runs in the child. botocore first, so that what it imports is not counted as ours; then the function.
_PROBE = """
import json, sys, time
start = time.perf_counter()
import botocore.session, botocore.client, botocore.config
botocore_ms = (time.perf_counter() - start) * 1000
clients_ms = 0.0
create = botocore.session.Session.create_client
def timed(*args, **options):
    global clients_ms
    begun = time.perf_counter()
    try:
        return create(*args, **options)
    finally:
        clients_ms += (time.perf_counter() - begun) * 1000
botocore.session.Session.create_client = timed
import importlib
importlib.import_module(sys.argv[1])
total_ms = (time.perf_counter() - start) * 1000
print(json.dumps({
    "imports_ms": total_ms - botocore_ms - clients_ms, "botocore_ms": botocore_ms, "clients_ms": clients_ms,
    "cpu_ms": time.process_time() * 1000, "ended_at": time.time(),
}))
"""

ENVIRONMENT = {
    LOG_TABLE: "log",
    GROUPS_TABLE: "groups",
    CATALOG_TABLE: "catalog",
    BUCKET: "bucket",
    REGION: "us-east-1",
    ROWS_TABLE: "rows",
    QUEUE_URL: "https://sqs.us-east-1.amazonaws.com/000000000000/tasks",
    WAKE_QUEUE_URL: "https://sqs.us-east-1.amazonaws.com/000000000000/wakes",
    "AWS_ACCESS_KEY_ID": "none",
    "AWS_SECRET_ACCESS_KEY": "none",
}


def measure(function: str, python_path: str, runs: int) -> dict[str, float]:
    """The best of each column over the runs, in ms."""
    module = HANDLERS[function].rpartition(".")[0]
    results = [_run_once(module, python_path) for _ in range(runs)]
    return {column: min(result[column] for result in results) for column in COLUMNS}


def _run_once(module: str, python_path: str) -> dict[str, float]:
    started_at = time.time()
    child = subprocess.run(
        [sys.executable, "-S", "-s", "-c", _PROBE, module],
        env={**ENVIRONMENT, "PYTHONPATH": python_path, "PATH": os.environ.get("PATH", "")},
        capture_output=True,
        text=True,
        check=False,
    )
    if child.returncode:
        raise SystemExit(f"{module} does not import from the package:\n{child.stderr}")
    result: dict[str, float] = json.loads(child.stdout.splitlines()[-1])
    result["ready_ms"] = (result.pop("ended_at") - started_at) * 1000
    return result


def _interpreter_ms() -> float:
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True)
    return (time.perf_counter() - begun) * 1000


def run(runs: int) -> dict[str, Any]:
    """Package, measure, print the table, write the JSON; returns what was written."""
    with tempfile.TemporaryDirectory(prefix="odradek-cold-start-") as folder:
        root = Path(folder)
        for artifact in build(root / "dist", Target.host()):
            if artifact.path.suffix == ".zip":
                with zipfile.ZipFile(artifact.path) as archive:
                    archive.extractall(root / "opt")
        python_path = os.pathsep.join([str(root / "opt"), str(root / "opt" / "python")])
        interpreter_ms = min(_interpreter_ms() for _ in range(2 * runs))
        functions = {name: measure(name, python_path, runs) for name in HANDLERS}
    results = {
        "bench": "cold_start",
        "runs": runs,
        "python": sys.version.split()[0],
        "interpreter_ms": interpreter_ms,
        "functions": functions,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    print(f"cold start, best of {runs}, Python {results['python']}")
    print(f"{'function':<12}" + "".join(f"{column:>13}" for column in COLUMNS))
    print(f"{'interpreter':<12}" + " " * 39 + f"{interpreter_ms:>13.0f}")
    for name, row in functions.items():
        print(f"{name:<12}" + "".join(f"{row[column]:>13.0f}" for column in COLUMNS))
    return results


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Import time and process start to ready of each packaged function.")
    parser.add_argument("--runs", type=int, default=7, help="processes a function (7)")
    parser.add_argument("--quick", action="store_true", help="two processes a function")
    arguments = parser.parse_args(argv)
    run(2 if arguments.quick else arguments.runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
