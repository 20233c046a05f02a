"""A short run of the fuzzer: no exception but our own, whatever the bytes. `python -m tests.property.fuzz` goes on."""

from __future__ import annotations

import random
import re
import subprocess
import sys

import pytest

from tests.property.fuzz import corpus
from tests.property.fuzz.mutations import mutated
from tests.property.fuzz.targets import TARGETS
from tests.support.examples import examples

INPUTS = examples(50_000)


def fuzz(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.property.fuzz", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.timeout(900)
def test_no_input_raises_anything_but_our_own_errors() -> None:
    run = fuzz("--inputs", str(INPUTS), "--seed", "1")
    print(run.stdout)
    assert run.returncode == 0, run.stdout + run.stderr
    for target in TARGETS:
        line = next(line for line in run.stdout.splitlines() if line.startswith(target.name))
        _, accepted, refused = (int(number.replace(",", "")) for number in re.findall(r"\b[\d,]+\b", line)[:3])
        assert min(accepted, refused) > 50, f"the damage must hit and miss: {line}"


def test_an_input_is_the_same_every_time() -> None:
    seeds = corpus.batches()
    once, again = ([mutated(seeds[n], seeds, random.Random(n)) for n in range(len(seeds))] for _ in range(2))
    assert once == again
    assert sum(a == b for a, b in zip(once, seeds, strict=True)) < len(seeds) / 5


PLANTED = {
    "an exception": "def decode(chance): raise IndexError('planted')",
    "a crash of the interpreter": "def decode(chance): import os; os.kill(os.getpid(), 11)",
    "a leak": "def decode(chance): held.append(bytearray(1 << 20)); return True",
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found_and_named(bug: str) -> None:
    program = f"""
held = []
{PLANTED[bug]}
from tests.property.fuzz import __main__ as fuzzer
from tests.property.fuzz.targets import Target
fuzzer.GROWTH_MIB_MAX = 50
fuzzer.TARGETS = (Target("planted", 1, decode),)
raise SystemExit(fuzzer.main(["--inputs", "150"]))
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "FAILED" in run.stdout
    assert "--target 'planted' --start" in run.stdout
