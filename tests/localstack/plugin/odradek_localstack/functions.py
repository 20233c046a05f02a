"""Functions without containers: each execution environment is a Python process in the function's unpacked code.

The process runs worker.py and sees the function's code and nothing of LocalStack's own packages (-S -s). Events and
answers are JSON lines. What it logs goes to a file that `get_logs` reads.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from localstack import config
from localstack.services.lambda_.invocation.lambda_models import FunctionVersion, InvocationResult
from localstack.services.lambda_.invocation.plugins import RuntimeExecutorPlugin
from localstack.services.lambda_.invocation.runtime_executor import RuntimeExecutor

_WORKER = Path(__file__).with_name("worker.py")
_GRACE_S = 2.0
_INHERITED = ("PATH", "LANG", "HOME", "TMPDIR")


class LocalExecutor(RuntimeExecutor):
    """One execution environment."""

    def __init__(self, id: str, function_version: FunctionVersion) -> None:
        super().__init__(id, function_version)
        self._process: subprocess.Popen[bytes] | None = None
        self._log = tempfile.NamedTemporaryFile(  # noqa: SIM115 - lives as long as the environment
            prefix=f"function-{id}-", suffix=".log"
        )

    def start(self, env_vars: dict[str, Any]) -> None:
        self.prepare_version(self.function_version)  # the code may have been another version's too, and be gone
        code = self.function_version.config.code.get_unzipped_code_location()
        environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        environment |= {name: str(value) for name, value in env_vars.items() if value is not None}
        # The layer's python/ folder lies in the code: this edition of LocalStack has no layers.
        environment |= {"LAMBDA_TASK_ROOT": str(code), "PYTHONPATH": f"{code}{os.pathsep}{code / 'python'}"}
        environment["PYTHONDONTWRITEBYTECODE"] = "1"  # as on a read-only layer
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-s", str(_WORKER), self.function_version.config.handler],
            cwd=code,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        ready = self._answer()
        if ready.get("error") is not None:
            raise RuntimeError(f"the function does not initialize: {ready['error']}")

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def get_address(self) -> str:
        return "127.0.0.1"

    def get_endpoint_from_executor(self) -> str:
        return "127.0.0.1"

    def get_runtime_endpoint(self) -> str:
        return f"http://127.0.0.1:{config.GATEWAY_LISTEN[0].port}"

    def invoke(self, payload: dict[str, str]) -> InvocationResult:
        assert self._process is not None
        assert self._process.stdin is not None
        request = {
            "event": json.loads(payload["payload"] or "null"),
            "request_id": payload["invoke-id"],
            "arn": payload["invoked-function-arn"],
            "timeout_s": self.function_version.config.timeout,
        }
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        response = self._answer()
        failed = response.get("error") is not None
        body = response["error"] if failed else response["result"]
        return InvocationResult(
            request_id=payload["invoke-id"],
            payload=json.dumps(body).encode(),
            is_error=failed,
            logs=self.get_logs(),
            executed_version=self.function_version.id.qualifier,
        )

    def get_logs(self) -> str:
        return Path(self._log.name).read_text(errors="replace")[-4096:]

    @classmethod
    def prepare_version(cls, function_version: FunctionVersion) -> None:
        function_version.config.code.prepare_for_execution()

    @classmethod
    def cleanup_version(cls, function_version: FunctionVersion) -> None:
        function_version.config.code.destroy_cached()

    def _answer(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            return {"error": {"errorType": "Runtime.ExitError", "errorMessage": self.get_logs()[-1000:]}}
        response: dict[str, Any] = json.loads(line)
        return response


class LocalExecutorPlugin(RuntimeExecutorPlugin):
    name = "local"

    def load(self, *args: Any, **kwargs: Any) -> type[RuntimeExecutor]:
        return LocalExecutor
