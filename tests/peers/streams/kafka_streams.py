"""Kafka Streams' rows for the topologies, by its TopologyTestDriver: one JVM answers all of them."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.sql.streamed import Row, Sent

HERE = Path(__file__).parent
_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_NULL = "\\"


def compiled(folder: Path) -> str:
    """Fetch Kafka Streams from Maven Central, compile the programs, and return their class path."""
    maven = ("mvn", "--batch-mode", "--quiet", "--file", str(HERE / "pom.xml"), _GOAL)
    subprocess.run([*maven, f"-DoutputDirectory={folder}"], check=True)
    programs = sorted(map(str, HERE.glob("*.java")))
    subprocess.run(["javac", "-nowarn", "-Xlint:none", "-cp", f"{folder}/*", "-d", str(folder), *programs], check=True)
    return f"{folder}/*:{folder}"


def answers(class_path: str, cases: Sequence[tuple[str, Sequence[Sent]]]) -> list[list[Row]]:
    """Return the result of each case: a topology, and its records in the order in which they arrive."""
    lines = []
    for topology, records in cases:
        lines.append(f"= {topology}")
        for each in records:
            key, value = (_NULL if text is None else text for text in (each.key, each.value))
            lines.append("\t".join((each.topic, key, value, str(each.time_ms), each.source)))
    command = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", class_path, "Answers"]
    printed = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=True).stdout
    found: list[list[Row]] = []
    for line in printed.splitlines():
        if line == "=":
            found.append([])
            continue
        key, value, ms, source = line.split("\t")
        bare = None if key == _NULL else base64.b64decode(key)
        found[-1].append((bare, None if value == _NULL else value, int(ms), None if source == _NULL else source))
    return found
