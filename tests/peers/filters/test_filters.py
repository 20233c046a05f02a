"""Filters of triggers beside EventBridge's own matcher, event-ruler 1.8.1: some 3,400 pairs of a pattern and an event.

Its answers are kept in answers.txt, a letter a pair (true, false, null: refused), so our side needs no Java. `make
peers` asks event-ruler again; ODRADEK_KEEP_ANSWERS=1 writes them, after pairs.py has changed.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from odradek.triggers.filters import matches_event

from tests.peers.filters.pairs import pairs

HERE = Path(__file__).parent
ANSWERS = HERE / "answers.txt"
PAIRS = list(pairs())
MINIMUM = 400


def accepted(pattern: str, event: str) -> str | None:
    """Return why our answer to a pair may be another one."""
    if '"0.0.0.0/0"' in pattern:
        return "event-ruler takes numbers and IPv6 addresses for addresses of IPv4, by their first letters"
    if pattern.startswith('{"$or": {'):
        return "event-ruler takes an $or that is no list for a field of this name; ours refuses the pattern"
    return None


def ours(pattern: str, event: str) -> str:
    try:
        return "t" if matches_event(pattern, event) else "f"
    except ValueError:
        return "n"


def kept() -> str:
    return ANSWERS.read_text().replace("\n", "")


def test_filters_match_as_event_ruler_s(capsys: pytest.CaptureFixture[str]) -> None:
    answers = kept()
    assert len(answers) == len(PAIRS) >= MINIMUM
    other = [
        (*pair, mine, answer) for pair, answer in zip(PAIRS, answers, strict=True) if (mine := ours(*pair)) != answer
    ]
    assert [pair for pair in other if accepted(*pair[:2]) is None] == []
    with capsys.disabled():
        print(f"\nfilters: {len(PAIRS):,} pairs beside event-ruler 1.8.1, {len(other)} accepted differences")
        for reason in sorted({accepted(*pair[:2]) or "" for pair in other}):
            print(f"  {reason}")


@pytest.mark.peers
def test_the_kept_answers_are_event_ruler_s(tmp_path: Path) -> None:
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
    maven = ("mvn", "--batch-mode", "--quiet", "--file", str(HERE / "pom.xml"), goal)
    subprocess.run([*maven, f"-DoutputDirectory={tmp_path}"], check=True)
    subprocess.run(["javac", "-nowarn", "-cp", f"{tmp_path}/*", "-d", tmp_path, HERE / "Matcher.java"], check=True)
    lines = "".join(json.dumps(pair) + "\n" for pair in PAIRS)
    command = ["java", "-cp", f"{tmp_path}/*:{tmp_path}", "Matcher"]
    printed = subprocess.run(command, input=lines, capture_output=True, text=True, check=True).stdout
    answers = "".join(line[0] for line in printed.split())
    if os.environ.get("ODRADEK_KEEP_ANSWERS"):
        ANSWERS.write_text("".join(f"{answers[at : at + 100]}\n" for at in range(0, len(answers), 100)))
    assert answers == kept()
