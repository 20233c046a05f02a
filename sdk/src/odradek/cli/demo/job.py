"""The Glue job `flight_delays` as a subprocess: its own file with Glue's arguments, on a local Spark."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import odradek
from odradek.child_process import start_child
from odradek.cli.demo.failure import DemoFailed
from odradek.cli.demo.service import ServiceProcess
from odradek.cli.demo.workspace import Workspace
from odradek.spark.local import local_environment, warm_workers

JOB = Path("glue_jobs", "flight_delays", "job.py")
_STOP_S = 10.0


@dataclass(frozen=True, slots=True)
class JobRun:
    """The job's summary and duration."""

    summary: dict[str, Any]
    seconds: float


def find_checkout() -> Path:
    """Return the root of the checkout, which has glue_jobs/. Raises DemoFailed."""
    package = Path(odradek.__file__)
    for folder in (Path.cwd(), *Path.cwd().parents, *package.parents):
        if (folder / JOB).is_file():
            return folder
    raise DemoFailed(f"{JOB} was not found: run the demo in a checkout of Odradek, with `make demo`")


def require_java() -> None:
    """Raise DemoFailed if Java is missing, without which Spark does not start."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else shutil.which("java")
    if java is None or not Path(java).exists():
        raise DemoFailed("Spark needs Java 17: install it, or set JAVA_HOME")


def run_job(checkout: Path, service: ServiceProcess, workspace: Workspace) -> JobRun:
    """Run the job to its end. Raises DemoFailed with the job's error."""
    command = [
        sys.executable, str(checkout / JOB),
        "--JOB_NAME", "flight_delays",
        "--store", f"embedded:{workspace.store}",
        "--bootstrap-servers", service.bootstrap_servers,
        "--checkpoint-location", str(workspace.checkpoint),
        "--output", str(workspace.output),
    ]  # fmt: skip
    spark = local_environment(workspace.spark, os.environ)
    environment = spark | service.environment
    started = time.monotonic()
    environment = warm_workers(environment)
    log_file = workspace.log("job")
    output, code = _run(command, checkout, environment, log_file)
    if code != 0:
        raise DemoFailed(f"the job flight_delays failed: {_reason(log_file)}; see its log {log_file}")
    try:
        summary = json.loads(output.decode().strip().splitlines()[-1])
    except (ValueError, IndexError):
        raise DemoFailed(f"the job flight_delays printed no summary; see its log {log_file}") from None
    return JobRun(summary, time.monotonic() - started)


def _run(command: Sequence[str], checkout: Path, environment: dict[str, str], log_file: Path) -> tuple[bytes, int]:
    with log_file.open("wb") as log:
        # In a separate session, so that Spark's JVM and workers can be stopped with it.
        process = start_child(command, environment, cwd=checkout, stdout=subprocess.PIPE, stderr=log)
        try:
            output, _ = process.communicate()
        except BaseException:
            stop_group(process)
            raise
    return output, process.returncode


def stop_group(process: subprocess.Popen[bytes]) -> None:
    """End a process and all processes that it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def _reason(log_file: Path) -> str:
    lines = log_file.read_text(errors="replace").splitlines()
    own = [line for line in lines if line.startswith("flight_delays: ")]
    return (own or lines or ["it printed nothing"])[-1].removeprefix("flight_delays: ")
