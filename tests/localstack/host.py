"""LocalStack in host mode: from the package index alone, no Docker, no token. Python 3.13 is required by LocalStack.

.localstack/env     an environment of its own (some 350 MB, made once), of plugin/pyproject.toml and plugin/uv.lock
.localstack/root    what LocalStack writes; emptied at every start
.localstack/log     what it says
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.package import find_interpreter

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".localstack"
PLUGIN = Path(__file__).parent / "plugin"
SERVICES = "s3,dynamodb,sqs,lambda,iam,sts,cloudformation,logs,events"
_READY_S = 120.0
_GRACE_S = 5.0


class CannotRun(Exception):
    """The message says why LocalStack cannot run here."""


def find_python() -> str:
    """An interpreter of version 3.13. Raises CannotRun."""
    interpreter = find_interpreter("3.13")
    if interpreter is None:
        raise CannotRun("LocalStack needs Python 3.13, and there is none on this machine: install it")
    return str(interpreter)


def prepare() -> Path:
    """Make the environment if its lock or the plugin changed; returns its interpreter. Raises CannotRun."""
    environment = FOLDER / "env"
    python, stamp = environment / "bin" / "python", environment / ".lock"
    wanted = "\n".join(
        path.read_text() for path in sorted(PLUGIN.rglob("*")) if path.suffix in (".lock", ".py", ".toml")
    )
    if stamp.is_file() and stamp.read_text() == wanted:
        return python
    made = subprocess.run(
        [_uv(), "sync", "--quiet", "--frozen", "--no-editable", "--project", str(PLUGIN), "--python", find_python()],
        env={**os.environ, "UV_PROJECT_ENVIRONMENT": str(environment)},
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        raise CannotRun(f"LocalStack's environment cannot be made: {made.stderr.strip()[-500:]}")
    stamp.write_text(wanted)
    return python


@contextmanager
def running() -> Iterator[str]:
    """Start LocalStack and yield its endpoint; it is stopped at the end. Raises CannotRun."""
    python = prepare()
    root = FOLDER / "root"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    port = _free_port()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PYTHON"))},
        "OVERRIDE_IN_DOCKER": "0",
        "FILESYSTEM_ROOT": str(root),
        "TMPDIR": str(root),
        "GATEWAY_LISTEN": f"127.0.0.1:{port}",
        "DNS_ADDRESS": "0",
        "DISABLE_EVENTS": "1",
        "SKIP_SSL_CERT_DOWNLOAD": "1",
        "SERVICES": SERVICES,
        "EAGER_SERVICE_LOADING": "1",
        "PROVIDER_OVERRIDE_DYNAMODB": "moto",
        "PROVIDER_OVERRIDE_DYNAMODBSTREAMS": "moto",
        "LAMBDA_RUNTIME_EXECUTOR": "local",
        "LAMBDA_KEEPALIVE_MS": "600000",
    }
    with (FOLDER / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(python), "-m", "localstack.runtime.main"],
            cwd=root,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # with the functions' processes, to be ended together
        )
    try:
        endpoint = f"http://127.0.0.1:{port}"
        _wait_until_ready(endpoint, process)
        yield endpoint
    finally:
        _stop(process)


def _wait_until_ready(endpoint: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{endpoint}/_localstack/init", timeout=2) as response:
                if b'"READY": true' in response.read():
                    return
        except OSError:
            pass
        time.sleep(0.2)
    raise CannotRun(f"LocalStack did not become ready; it said:\n{(FOLDER / 'log').read_text()[-2000:]}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM may hang there: SIGKILL after a grace, for it and all that it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _uv() -> str:
    return str(Path(sys.executable).with_name("uv"))
