"""The build context of the gateway's container image: a Dockerfile, wheels, and the versions of uv.lock.

The CDK command line builds the image with Docker when the stack is deployed; writing the templates needs no Docker. The
directory has the same content for the same inputs, so the image is only rebuilt after a change.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from infra.artifacts import ROOT, Artifacts

# A tag may name another image tomorrow: `-c gateway_base_image=...@sha256:...` names the one that was reviewed.
BASE_IMAGE = "public.ecr.aws/docker/library/python:3.13-slim"
_DOCKERFILE = """\
FROM {base_image}
COPY constraints.txt *.whl /install/
RUN pip install --no-cache-dir --constraint /install/constraints.txt /install/*.whl && rm -r /install
USER 65534
EXPOSE 9092 8081 8080
ENTRYPOINT ["python", "-m", "odradek.gateway"]
"""


def is_pinned(image: str) -> bool:
    """Return whether an image is named by its digest, so that it never changes."""
    return re.fullmatch(r"[^@\s]+@sha256:[0-9a-f]{64}", image) is not None


def image_directory(artifacts: Artifacts, base_image: str = BASE_IMAGE) -> Path:
    """Return the build context."""
    return build_context(
        "gateway", _DOCKERFILE.replace("{base_image}", base_image), artifacts, ("odradek", "odradek_server")
    )


def build_context(name: str, dockerfile: str, artifacts: Artifacts, distributions: Iterable[str]) -> Path:
    """Return a directory with a Dockerfile, the wheels of some distributions and the locked versions."""
    directory = Path(tempfile.gettempdir()) / f"odradek-{name}-image"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    (directory / "Dockerfile").write_text(dockerfile)
    (directory / "constraints.txt").write_text(constraints())
    for wheel in (artifacts.wheels[distribution] for distribution in distributions):
        shutil.copyfile(wheel, directory / wheel.name)
    return directory


def constraints(lock: Path = ROOT / "uv.lock") -> str:
    """Return every version of the lock, for pip, except packages with several versions by Python version."""
    packages = tomllib.loads(lock.read_text())["package"]
    counts = Counter(package["name"] for package in packages)
    lines = [
        f"{package['name']}=={package['version']}"
        for package in packages
        if counts[package["name"]] == 1 and "registry" in package["source"]
    ]
    return "\n".join(sorted(lines)) + "\n"
