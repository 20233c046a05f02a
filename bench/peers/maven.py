"""Jars of the peers that benches measure us against, from Maven Central; kept in build/.

python -m bench.peers.maven      fetch them all beforehand
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

_BUILD = Path(__file__).parents[2] / "build"
_DOWNLOAD_S = 600


APACHE_KAFKA = "apache_kafka"
SPARK_KAFKA = "spark_kafka"
APACHE_CONNECT = "apache_connect"
DEBEZIUM = "debezium"
OPENSEARCH = "opensearch"
ELASTICSEARCH = "elasticsearch"
SPARK_ICEBERG = "spark_iceberg"
ICEBERG_REST = "iceberg_rest"
TRINO = "trino"


class NoJars(Exception):
    """The jars cannot be had here; says why."""


def maven_jars(peer: str, **versions: str) -> list[Path]:
    """The runtime jars that the pom of a peer, in the folder of its name, names. Raises NoJars.

    Args:
        versions: others than the pom's, by the name of its property before `.version`: `kafka="4.3.1"`.
    """
    return sorted(_fetched(peer, "copy-dependencies", "-DincludeScope=runtime", versions=versions).glob("*.jar"))


def maven_archives(peer: str) -> Path:
    """The folder with the unpacked archives that the pom of a peer names. Raises NoJars."""
    return _fetched(peer, "unpack-dependencies")


def _fetched(peer: str, goal: str, *arguments: str, versions: Mapping[str, str] | None = None) -> Path:
    versions = versions or {}
    pom, folder = Path(__file__).parent / peer / "pom.xml", _BUILD / "-".join((peer, *versions.values()))
    arguments = *arguments, *(f"-D{name}.version={version}" for name, version in versions.items())
    done, wanted = folder / ".complete", sha256(pom.read_bytes()).hexdigest()
    if not done.exists() or done.read_text() != wanted:
        for program in ("mvn", "java"):
            if shutil.which(program) is None:
                raise NoJars(f"{program} is not on the PATH")
        shutil.rmtree(folder, ignore_errors=True)  # jars of other versions, which would be on the class path too
        command = ["mvn", "-q", "-B", "-f", str(pom), f"dependency:{goal}", *arguments, f"-DoutputDirectory={folder}"]
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=_DOWNLOAD_S, check=False)
        except subprocess.TimeoutExpired:
            raise NoJars(f"nothing from Maven Central in {_DOWNLOAD_S} s") from None
        if run.returncode:
            reason = next((line for line in run.stdout.splitlines() if "ERROR" in line), "mvn failed")
            raise NoJars(reason[:200])
        done.write_text(wanted)
    return folder


def main(argv: list[str] | None = None) -> int:
    """Fetch all jars."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args(argv)
    try:
        iceberg = SPARK_ICEBERG, ICEBERG_REST
        for peer in (APACHE_KAFKA, SPARK_KAFKA, APACHE_CONNECT, DEBEZIUM, *iceberg, OPENSEARCH, ELASTICSEARCH):
            print(f"{peer}: {len(maven_jars(peer))} jars")
    except NoJars as reason:
        print(reason)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
