"""The build context of the image of the function `connect`: our wheels and the libraries of all connectors.

An image, because those libraries are larger than what a function with layers may have (250 MB); of an image Lambda
loads what is read. As the gateway's, it is built with Docker when the stack is deployed.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from odradek.functions.environment import HANDLERS

from infra.artifacts import ROOT, Artifacts
from infra.gateway_image import BASE_IMAGE, build_context

CONNECT = "connect"
HANDLER = HANDLERS["produce"].replace("produce", CONNECT)
_DISTRIBUTIONS = ("odradek", "odradek_connect", "odradek_console", "odradek_server")
_DOCKERFILE = """\
FROM {base_image}
COPY constraints.txt *.whl /install/
RUN pip install --no-cache-dir --constraint /install/constraints.txt \\
    "$(ls /install/odradek-*.whl)[connect]" /install/odradek_*.whl awslambdaric{more} && rm -r /install
COPY lambdas /var/task/lambdas
WORKDIR /var/task
ENTRYPOINT ["python", "-m", "awslambdaric"]
CMD ["{handler}"]
"""


def connect_image_directory(artifacts: Artifacts, packages: Iterable[str] = (), base_image: str = "") -> Path:
    """Return the build context.

    Args:
        packages: requirements of pip beside the wheel's.
        base_image: by default Python's.
    """
    more = "".join(f" {package!r}" for package in packages)
    dockerfile = _DOCKERFILE.replace("{base_image}", base_image or BASE_IMAGE)
    dockerfile = dockerfile.replace("{more}", more).replace("{handler}", HANDLER)
    directory = build_context(CONNECT, dockerfile, artifacts, _DISTRIBUTIONS)
    (directory / "lambdas").mkdir()
    (directory / "lambdas" / "__init__.py").write_text("")
    shutil.copytree(
        ROOT / "lambdas" / CONNECT, directory / "lambdas" / CONNECT, ignore=shutil.ignore_patterns("__pycache__")
    )
    return directory
