"""`odradek connect run` and SIGTERM: a worker whose service is gone ends all the same."""

from __future__ import annotations

import signal
from pathlib import Path

import odradek

from tests.support.connect.running import RunningCluster
from tests.support.connect.worker_process import WorkerProcess
from tests.support.kafka.port import until


def test_a_worker_ends_when_its_service_is_gone(tmp_path: Path) -> None:
    with odradek.local(tmp_path / "data") as service:
        running = RunningCluster(service, workers=0)
        worker = WorkerProcess(running, 1, tmp_path, **{"task.shutdown.graceful.timeout.ms": "500"})
        log = tmp_path / "worker-1.log"
        try:
            until(lambda: "ready" in log.read_text(), 120, log.read_text())
        except BaseException:
            worker.kill()
            raise
    try:
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(60) in (0, 1)  # it took minutes
    finally:
        worker.kill()
    assert "Traceback" not in log.read_text()
