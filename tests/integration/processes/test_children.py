"""A child ends with its parent, whatever ended that: each parent is killed by SIGKILL, and what is left is counted."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

WAIT_S = 120.0
CHILD = """
import os, sys, time
from odradek.child_process import end_with_parent
end_with_parent(os.environ)
assert "ODRADEK_PARENT" not in os.environ
print("ready", flush=True)
time.sleep(3600)
"""
STUBBORN = CHILD.replace("print", "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint").replace(
    "end_with_parent(os.environ)", "import odradek.child_process as c; c._GRACE_S = 0.2; end_with_parent(os.environ)"
)
STARTS = """
import os, subprocess, sys, time
from odradek.child_process import start_child
child = start_child([sys.executable, "-c", {child!r}], os.environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
assert child.stdout.readline() == b"ready\\n"
print(child.pid, flush=True)
time.sleep(3600)
"""
FORK_SERVER = """
import os, time
from odradek.spark.workers.fork_server import ForkServer
server = ForkServer(os.environ)
print(server._process.pid, flush=True)
time.sleep(3600)
"""
SERVICE = """
import json, os, subprocess, sys, time
from pathlib import Path
from odradek.child_process import start_child
command = [sys.executable, "-m", "odradek.local", "--data-dir", {data!r}, "--port", "0"]
service = start_child(command, os.environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
place = ["--data-dir", {data!r}, "-b", json.loads(service.stdout.readline())["bootstrap_servers"]]
"""
SHELL = (
    SERVICE
    + """
from odradek.cli.pipeline.sql_shell import own_server
with own_server([*place, "--service-id", "shell"], Path({data!r}, "log")) as url:
    print(url, flush=True)
    time.sleep(3600)
"""
)
JOBS = (
    SERVICE
    + """
from odradek.operations.sql.jobs import SqlJobs
jobs = SqlJobs(Path({data!r}), place, {})
script = "CREATE STREAM s (a INT) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON', PARTITIONS = 1);"
jobs.start("one", script + " CREATE STREAM t AS SELECT * FROM s;", once=False)
while not any("started CSAS_T" in line for line in jobs.rows()[0].log):
    time.sleep(0.2)
print("started", flush=True)
time.sleep(3600)
"""
)


def started(program: str) -> tuple[subprocess.Popen[str], str]:
    """Return a parent, and the line that it printed when its children ran."""
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    line = parent.stdout.readline().strip()
    assert line, "the parent did not start"
    return parent, line


def descendants(root: int) -> set[int]:
    """Return the processes that another one started, and those that these started."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                match = re.search(r"^PPid:\s+(\d+)", (entry / "status").read_text(), re.MULTILINE)
            except OSError:
                continue
            assert match is not None
            parents.setdefault(int(match[1]), []).append(int(entry.name))
    result, todo = set(), [root]
    while todo:
        for child in parents.get(todo.pop(), []):
            result.add(child)
            todo.append(child)
    return result


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def left(pids: set[int]) -> set[int]:
    """Return the processes that still run when the others had time to end."""
    deadline = time.monotonic() + WAIT_S
    while (running := {pid for pid in pids if is_running(pid)}) and time.monotonic() < deadline:
        time.sleep(0.1)
    for pid in running:
        os.kill(pid, signal.SIGKILL)
    return running


@pytest.mark.skipif(not Path("/proc").exists(), reason="counts processes of Linux")
@pytest.mark.parametrize(
    ("program", "count"),
    [
        pytest.param(STARTS.format(child=CHILD), 1, id="a child"),
        pytest.param(STARTS.format(child=STUBBORN), 1, id="a child that does not end in order"),
        pytest.param(FORK_SERVER, 1, id="a driver's fork server"),
        pytest.param(SHELL, 4, id="the shell's server, its JVM and its fork server", marks=pytest.mark.slow),
        pytest.param(JOBS, 4, id="a query that the console started", marks=pytest.mark.slow),
    ],
)
def test_nothing_is_left_of_a_killed_parent(program: str, count: int, tmp_path: Path) -> None:
    """Slow: a JVM starts, half a minute each, but for the first three."""
    parent, _ = started(program.replace("{data!r}", repr(str(tmp_path))))
    children = {child for child in descendants(parent.pid) if is_running(child)}  # not those that ended by themselves
    assert len(children) >= count
    parent.kill()
    parent.wait()
    assert left(children) == set()
