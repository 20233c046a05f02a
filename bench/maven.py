"""Jars of the peers that benches measure us against, from Maven Central."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

_BUILD = Path(__file__).parent.parent / "build"
_DOWNLOAD_S = 600


class NoJars(Exception):
    """The jars cannot be had here; says why."""


def maven_jars(pom: Path, folder: str) -> list[Path]:
    """The runtime jars that a pom names; kept in build/`folder`. Raises NoJars."""
    jars = _BUILD / folder
    done = jars / ".complete"
    if not done.exists():
        for program in ("mvn", "java"):
            if shutil.which(program) is None:
                raise NoJars(f"{program} is not on the PATH")
        command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", "-DincludeScope=runtime"]
        command.append(f"-DoutputDirectory={jars}")
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=_DOWNLOAD_S, check=False)
        except subprocess.TimeoutExpired:
            raise NoJars(f"no jars from Maven Central in {_DOWNLOAD_S} s") from None
        if run.returncode:
            reason = next((line for line in run.stdout.splitlines() if "ERROR" in line), "mvn failed")
            raise NoJars(reason[:200])
        done.touch()
    return sorted(jars.glob("*.jar"))
