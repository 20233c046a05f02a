"""Run the packaged artifacts as Lambda runs them: each function in a process of its own, under AWS's runtime client.

The process sees the unpacked function and layer and the runtime client, and nothing of the development environment: no
site-packages, no user site, an environment of its own.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import distribution, requires
from pathlib import Path
from typing import Any

from odradek.functions.environment import HANDLERS

from tests.support.services.runtime_api import RuntimeApi
from tools.package import Target, build

_GRACE_S = 5.0


@dataclass(frozen=True, slots=True)
class Deployment:
    """Folders of the unpacked artifacts."""

    task_root: Path  # /var/task
    layer: Path  # /opt
    runtime: Path  # where Lambda keeps its runtime client
    maintainers_layers: Path  # /opt of the maintainer: with the layer `tables` if it was built


def deploy(root: Path, *, tables: bool = False) -> Deployment:
    """Build the artifacts for this machine and unpack them; layers over each other, as Lambda does."""
    task_root, layer, runtime = root / "task", root / "opt", root / "runtime"
    build(root / "dist", Target.host(), tables=tables)
    unpacked = [("functions.zip", task_root), ("layer.zip", layer)]
    maintainers = root / "opt-maintainer" if tables else layer
    if tables:
        unpacked += [("layer.zip", maintainers), ("tables.zip", maintainers)]
    for name, target in unpacked:
        with zipfile.ZipFile(root / "dist" / name) as archive:
            archive.extractall(target)
    runtime.mkdir()
    _link_distribution("awslambdaric", runtime)
    return Deployment(task_root, layer, runtime, maintainers)


def _link_distribution(name: str, target: Path) -> None:
    """Make the modules of one installed distribution, and of what it requires, visible in a directory."""
    for file in distribution(name).files or ():
        top = file.parts[0]
        source = Path(str(distribution(name).locate_file(top)))
        if top not in {"..", "__pycache__"} and source.exists() and not (target / top).exists():
            (target / top).symlink_to(source)
    for requirement in requires(name) or ():
        if "extra ==" not in requirement:
            _link_distribution(
                requirement.split(";")[0].strip().split(">")[0].split("=")[0].split("<")[0].strip(), target
            )


@dataclass(frozen=True, slots=True)
class RunningFunction:
    """One warm execution environment."""

    api: RuntimeApi
    log: Path

    def invoke(self, event: Any) -> Any:
        return self.api.invoke(event)

    def log_text(self) -> str:
        return self.log.read_text()


@contextmanager
def running_function(
    deployment: Deployment, name: str, environment: Mapping[str, str], log: Path, *, timeout_s: float = 30.0
) -> Iterator[RunningFunction]:
    """Start a function's process; it initializes, then serves `invoke` until the end of the block."""
    api = RuntimeApi(timeout_s=timeout_s)
    layers = deployment.maintainers_layers if name == "maintainer" else deployment.layer
    python_path = [deployment.task_root, layers / "python", deployment.runtime]
    handler = HANDLERS[name]
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-S", "-s", "-m", "awslambdaric", handler],
            cwd=deployment.task_root,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={
                **environment,
                "PYTHONPATH": ":".join(map(str, python_path)),
                "LAMBDA_TASK_ROOT": str(deployment.task_root),
                "AWS_LAMBDA_RUNTIME_API": api.address,
                "AWS_LAMBDA_FUNCTION_NAME": f"odradek-{name}",
                "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1769",
                "_HANDLER": handler,
                "PATH": "/usr/bin:/bin",
            },
        )
        try:
            yield RunningFunction(api, log)
        finally:
            process.terminate()
            try:
                process.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            api.close()
