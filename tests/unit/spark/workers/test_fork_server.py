"""Python workers that are forks: what they see of the process that they stand for, and when they end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.spark.workers.fork_server import ForkServer, is_launched

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the operating system has no fork")

WORKER = """
import json, os, sys
print(json.dumps({
    "name": __name__, "argv": sys.argv, "path": sys.path, "folder": os.getcwd(), "given": os.environ.get("GIVEN"),
    "read": sys.stdin.read(), "imported": "odradek.spark.source.data_source" in sys.modules, "pid": os.getpid(),
    "parent": os.getppid(), "threads": len(os.listdir("/proc/self/task")) if os.path.exists("/proc/self/task") else 1,
}))
print("said", file=sys.stderr)
sys.exit(7)
"""
SLEEPER = """
import os, sys, time
print(os.getpid())
time.sleep(600)
"""
WAIT_S = 30.0


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    started = ForkServer(os.environ)
    yield started
    started.close()


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    (tmp_path / "a_worker.py").write_text(WORKER)
    (tmp_path / "a_sleeper.py").write_text(SLEEPER)
    (tmp_path / "spark-core.jar").write_bytes(b"")
    return tmp_path


def environment(server: ForkServer, modules: Path) -> dict[str, str]:
    path = os.pathsep.join([str(modules), str(modules / "spark-core.jar")])
    return {**server.environment, "PYTHONPATH": path, "GIVEN": "so"}


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_worker_is_a_fork_that_looks_like_python_m(server: ForkServer, modules: Path) -> None:
    program = server.environment["PYSPARK_PYTHON"]
    run = subprocess.run(
        [program, "-m", "a_worker", "one", "two"], env=environment(server, modules), cwd=modules,
        input="typed", capture_output=True, text=True, timeout=WAIT_S, check=False,
    )  # fmt: skip
    assert (run.returncode, run.stderr) == (7, "said\n")
    report = json.loads(run.stdout)
    assert report["name"] == "__main__"
    assert report["argv"] == [str(modules / "a_worker.py"), "one", "two"]
    assert (report["folder"], report["given"], report["read"]) == (str(modules), "so", "typed")
    assert report["path"][0] == str(modules)
    assert not any(".jar" in entry for entry in report["path"])
    assert report["imported"], "what the server had imported"
    assert report["threads"] <= 2, "its own, and one of Arrow's memory pool"


def test_a_worker_ends_with_the_process_that_spark_knows(server: ForkServer, modules: Path) -> None:
    for number, status in ((signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL)):
        process = subprocess.Popen(
            [server.environment["PYSPARK_PYTHON"], "-m", "a_sleeper"], env=environment(server, modules),
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert pid != process.pid
        process.send_signal(number)
        assert process.wait(WAIT_S) == status
        deadline = time.monotonic() + WAIT_S
        while is_alive(pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not is_alive(pid), signal.Signals(number)
        process.stdout.close()


def test_a_module_that_is_not_there_is_named(server: ForkServer, modules: Path) -> None:
    run = subprocess.run(
        [server.environment["PYSPARK_PYTHON"], "-m", "no_such_worker"], env=environment(server, modules),
        capture_output=True, text=True, timeout=WAIT_S, check=False,
    )  # fmt: skip
    assert run.returncode == 1
    assert "No module named no_such_worker" in run.stderr


def test_without_a_server_it_is_a_python(server: ForkServer, modules: Path) -> None:
    without_server = environment(server, modules) | {"ODRADEK_FORK_SERVER": str(modules / "socket")}
    program = server.environment["PYSPARK_PYTHON"]
    for words in (["-m", "a_worker"], ["-c", "import sys; print(sys.executable); sys.exit(7)"]):
        run = subprocess.run(
            [program, *words], env=without_server, input="", capture_output=True, text=True, timeout=WAIT_S, check=False
        )
        assert run.returncode == 7
    assert run.stdout.strip() == sys.executable


def test_a_driver_knows_the_program(server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    program = server.environment["PYSPARK_PYTHON"]
    monkeypatch.delenv("ODRADEK_FORK_SERVER", raising=False)
    assert not is_launched(program)
    monkeypatch.setenv("ODRADEK_FORK_SERVER", server.environment["ODRADEK_FORK_SERVER"])
    assert is_launched(program)
    assert not is_launched(sys.executable)


def test_where_the_server_does_not_start_workers_start_as_ever(modules: Path) -> None:
    broken = {**os.environ, "PYTHONHOME": str(modules)}
    assert ForkServer(broken).environment == broken


def test_a_closed_server_leaves_no_files(server: ForkServer) -> None:
    folder = Path(server.environment["ODRADEK_FORK_SERVER"]).parent
    assert sorted(path.name for path in folder.iterdir()) == ["python", "socket"]
    server.close()
    assert not folder.exists()
