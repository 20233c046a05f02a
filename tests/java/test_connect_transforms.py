"""Apache Kafka's own transforms and predicates are the reference: same inputs, equal outcomes. `make java`.

With ODRADEK_WRITE_GOLDEN=1 the outcomes are stored for tests/unit/connect/test_transforms.py, which needs no Java.
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest

from tests.java.programs import BUILD
from tests.support.connect.golden import GOLDEN, write_golden
from tests.support.connect.transform_cases import cases, explained, outcome

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]


def test_every_transform_gives_what_kafka_gives() -> None:
    all_cases = list(cases())
    java = java_outcomes(all_cases)
    if os.environ.get("ODRADEK_WRITE_GOLDEN"):
        write_golden(GOLDEN, java)
    pairs = [(case, theirs, outcome(case)) for case, theirs in zip(all_cases, java, strict=True)]
    different = [pair for pair in pairs if pair[1] != pair[2] and not explained(pair[0], pair[1])]
    print(f"\n{len(pairs)} cases, {sum('refused' not in theirs for theirs in java)} of them not refused")
    assert different == []


def java_outcomes(all_cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    home = os.environ.get("JAVA_HOME")
    done = subprocess.run(
        [
            f"{home}/bin/java" if home else "java",
            *("-cp", f"{BUILD / 'classes'}:{BUILD / 'jars'}/*", "odradek.TransformReference"),
        ],
        input="\n".join(map(json.dumps, all_cases)),
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
