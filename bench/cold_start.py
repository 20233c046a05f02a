"""How long is a cold start? Process start to a handler that is ready, for each packaged function.

Runs what `make package` builds (for this machine, with bytecode), isolated from the development environment: the path
holds the function's code and the layer, as on Lambda. Best of N processes, since other load only ever adds; CPU time is
shown beside wall time for the same reason.

    ready      the process' start to the handler, the interpreter's own start included
    cpu        CPU time of that
    goal       the CPU time of the line "botocore", and 60 ms
    modules    how many were imported
    Minstr     millions of instructions, as callgrind counts them: repeatable on a busy machine (--instructions)

The line "interpreter" is Python alone: about 11 ms on an idle machine, so it tells how loaded this one is. The line
"botocore" is what a function pays that does nothing but to make boto3's clients of DynamoDB and S3.

    python -m bench.cold_start [--runs 7] [--instructions] [--functions produce,fetch]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
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
COLUMNS = ("ready_ms", "cpu_ms", "modules")
GOAL_ABOVE_BOTOCORE_MS = 60.0

BOTOCORE = """
import botocore.session
session = botocore.session.get_session()
for service in ("dynamodb", "s3"):
    session.create_client(service)
"""
# Runs in the child, after the program.
_REPORT = """
import json, sys, time
print(json.dumps({"cpu_ms": time.process_time() * 1000, "modules": len(sys.modules), "ended_at": time.time()}))
"""

ENVIRONMENT = {
    LOG_TABLE: "log",
    GROUPS_TABLE: "groups",
    CATALOG_TABLE: "catalog",
    BUCKET: "bucket",
    REGION: "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    ROWS_TABLE: "rows",
    QUEUE_URL: "https://sqs.us-east-1.amazonaws.com/000000000000/tasks",
    WAKE_QUEUE_URL: "https://sqs.us-east-1.amazonaws.com/000000000000/wakes",
    "AWS_ACCESS_KEY_ID": "none",
    "AWS_SECRET_ACCESS_KEY": "none",
}


def measure(program: str, python_path: str, runs: int) -> dict[str, float]:
    """The best of each column over the runs."""
    results = [_run_once(program, python_path) for _ in range(runs)]
    return {column: min(result[column] for result in results) for column in COLUMNS}


def importing(function: str) -> str:
    """The program that starts a function as Lambda does."""
    return f"import {HANDLERS[function].rpartition('.')[0]}"


def _child(command: list[str], python_path: str) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as empty:  # the current folder comes first on the path of `python -c`
        child = subprocess.run(
            command,
            env={**ENVIRONMENT, "PYTHONPATH": python_path, "PATH": os.environ.get("PATH", ""), "PYTHONHASHSEED": "0"},
            cwd=empty,
            capture_output=True,
            text=True,
            check=False,
        )
    if child.returncode:
        raise SystemExit(f"this fails with the package's path: {' '.join(command)}\n{child.stderr}")
    return child


def _run_once(program: str, python_path: str) -> dict[str, float]:
    started_at = time.time()
    child = _child([sys.executable, "-S", "-s", "-c", program + _REPORT], python_path)
    result: dict[str, float] = json.loads(child.stdout.splitlines()[-1])
    result["ready_ms"] = (result.pop("ended_at") - started_at) * 1000
    return result


def instructions(program: str, python_path: str) -> float:
    """Millions of instructions of a start, as valgrind counts them."""
    valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    child = _child([*valgrind, sys.executable, "-S", "-s", "-c", program], python_path)
    counted = re.search(r"Collected : (\d+)", child.stderr)
    if counted is None:
        raise SystemExit(f"valgrind counts nothing:\n{child.stderr}")
    return int(counted[1]) / 1e6


def run(runs: int, functions: Sequence[str], *, counts: bool) -> dict[str, Any]:
    """Package, measure, print the table, write the JSON; returns what was written."""
    with tempfile.TemporaryDirectory(prefix="odradek-cold-start-") as folder:
        root = Path(folder)
        for artifact in build(root / "dist", Target.host()):
            if artifact.path.suffix == ".zip":
                with zipfile.ZipFile(artifact.path) as archive:
                    archive.extractall(root / "opt")
        python_path = os.pathsep.join([str(root / "opt"), str(root / "opt" / "python")])
        programs = {"interpreter": "", "botocore": BOTOCORE} | {name: importing(name) for name in functions}
        rows = {name: measure(program, python_path, runs) for name, program in programs.items()}
        if counts:
            for name, program in programs.items():
                rows[name]["Minstr"] = instructions(program, python_path)
    goal_ms = rows["botocore"]["cpu_ms"] + GOAL_ABOVE_BOTOCORE_MS
    results = {
        "bench": "cold_start",
        "runs": runs,
        "python": sys.version.split()[0],
        "goal_cpu_ms": goal_ms,
        "starts": rows,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    columns = (*COLUMNS, *(("Minstr",) if counts else ()))
    print(f"cold start, best of {runs}, Python {results['python']}")
    print(f"{'':<20}" + "".join(f"{column:>12}" for column in columns) + f"{'goal_ms':>12}")
    for name, row in rows.items():
        goal = f"{goal_ms:>12.0f}" if name in HANDLERS else ""
        print(f"{name:<20}" + "".join(f"{row[column]:>12.0f}" for column in columns) + goal)
    return results


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Process start to ready of each packaged function.")
    parser.add_argument("--runs", type=int, default=7, help="processes a function (7)")
    parser.add_argument("--quick", action="store_true", help="two processes a function")
    parser.add_argument("--instructions", action="store_true", help="count them, too: needs valgrind and a minute each")
    parser.add_argument("--functions", default=",".join(HANDLERS), help="names, separated by commas (all)")
    arguments = parser.parse_args(argv)
    run(2 if arguments.quick else arguments.runs, arguments.functions.split(","), counts=arguments.instructions)
    return 0


if __name__ == "__main__":
    sys.exit(main())
