"""The nearest tests of a mutant that was made by rule: one process, test after test, until one fails.

Nearest are the files that import the mutated module, or lie in the folder of its package's tests, then those of
`_NEAR`, where a client or a port runs the code without importing it. A test that fails must pass without the mutant. A
mutant that no test notices within `CPU_S` seconds of CPU time has survived.

`python -m tests.mutants.by_tests NAME ...` tries these; without names those of made.json that have no verdict, in an
order of their own, so that two processes can share them.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import re
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.mutants.listed import MUTANTS
from tests.mutants.mutation import Mutant, exchange, install
from tests.mutants.rules import MADE, read_made, write_made

CPU_S = 300
_S_A_TEST = 240  # of real time: machines are busy
_S_TO_END = 30  # after it has timed out
_DOUBTS_MAX = 3  # tests that fail without the mutant, too, and are left out
_FILES_MAX = 8
_ROOT = Path(__file__).parents[2]
_FOLDERS = ("tests/unit", "tests/property", "tests/contract", "tests/integration")
_SLOW = re.compile(
    "spark|slow_stores|connect/|jobs/|examples/|readme/|package/|on_aws|apache_kafka|simulation|bench/|from_a_job|numba"
    "|test_send_table|test_poll_table|query/|upgrade/"
)
_NEAR = {
    "client/consumer": ("client/test_consumer.py", "client/test_consumer_extras.py", "client/test_given_up.py"),
    "client/producer": ("client/test_producer.py", "client/test_transactions.py", "client/test_given_up.py"),
    "client/share": ("share/test_share_consumer.py",),
    "client/transport": ("client/test_kafka_port.py", "client/test_http.py"),
    "gateway/registry_port": ("registry/test_port.py",),
    "gateway": ("gateway/test_produce_order.py", "gateway/test_slow_peers.py", "gateway/test_logins.py"),
    "dispatcher": ("dispatcher/test_round_trip.py", "dispatcher/test_descriptions.py", "security/test_access.py"),
    "adapters/embedded": ("../unit/adapters/test_capacity.py", "../contract/test_embedded_contract.py"),
    "adapters/expressions": ("../contract/test_memory_contract.py",),
    "adapters/memory": ("../contract/test_memory_contract.py",),
    "adapters/validation": ("../contract/test_memory_contract.py",),
    "adapters/aws/restore": ("cli/test_restore_on_aws.py",),
    "adapters/aws": ("../contract/test_aws_contract.py",),
    "registry": ("registry/test_port.py",),
    "served": ("served/test_over_http.py",),
}


def nearest(path: str) -> list[str]:
    """The test files to run for a mutated file, the nearest first."""
    module = ".".join(("odradek", *Path(path).with_suffix("").parts))
    package, area = module.rpartition(".")[0], Path(path).parts[-2 if path.startswith("adapters/") else 0]
    folders = Path(path).parts[:-1]
    scored: list[tuple[int, int, str]] = []
    for folder in _FOLDERS:
        for file in (_ROOT / folder).rglob("test_*.py"):
            name = file.relative_to(_ROOT).as_posix()
            if _SLOW.search(name):
                continue
            text, is_near = file.read_text(), area in name
            score = 4 * (f"from {module} import" in text) + 3 * (is_near and Path(path).stem in file.stem)
            score += 3 * (len(folders) > 1 and f"/{'/'.join(folders)}/" in name)
            score += is_near and f"from {package}" in text
            if score:
                scored.append((-score, len(text), name))
    near = [f"tests/integration/{name}" for start, names in _NEAR.items() if path.startswith(start) for name in names]
    scored.sort(key=lambda each: (each[0] > -3, "tests/unit" not in each[2], each))
    found = [name for score, _, name in scored if score <= -3]
    found += map(os.path.normpath, near)
    found += [name for _, _, name in scored]
    return [name for name in dict.fromkeys(found) if (_ROOT / name).exists()][:_FILES_MAX]


class _FirstFailure:
    """A pytest plugin that remembers the first test that failed, and which one is running, since when."""

    node = ""
    running = ""
    since_s = 0.0

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.running, self.since_s = nodeid, time.monotonic()

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.node:
            self.node = report.nodeid

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed and not self.node:
            self.node = report.nodeid


def run(mutant: Mutant | None, nodes: Sequence[str]) -> tuple[str, float]:
    """Run tests in a fork of this process; return the first that failed, or "", and the CPU seconds."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        _run_here(mutant, nodes, writing)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    if not told:
        return "", float(CPU_S)
    node, cpu_s = json.loads(told)
    return node, cpu_s


def _run_here(mutant: Mutant | None, nodes: Sequence[str], writing: int) -> None:
    import pytest

    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    first = _FirstFailure()

    def tell(*_: object) -> None:
        os.write(writing, json.dumps([first.node, round(time.process_time(), 1)]).encode())
        os._exit(0)

    def watch() -> None:
        """A test that goes on after its time-out hangs where the time-out was swallowed: it has failed."""
        while not first.running or time.monotonic() - first.since_s < _S_A_TEST + _S_TO_END:
            time.sleep(1)
        first.node = first.node or first.running
        tell()

    threading.Thread(target=watch, daemon=True).start()
    signal.signal(signal.SIGPROF, tell)
    signal.setitimer(signal.ITIMER_PROF, CPU_S)
    try:
        if mutant is not None and not _is_applied(mutant):
            first.node = "import"
        else:
            options = ["-q", "-x", "-n", "0", "-p", "no:cacheprovider", "-m", "not slow", "--timeout", str(_S_A_TEST)]
            pytest.main([*options, *nodes], plugins=[first])
    except BaseException as error:
        first.node = first.node or f"{type(error).__name__}: {error}"
    tell()


def _is_applied(mutant: Mutant) -> bool:
    if mutant.module in sys.modules:
        return exchange(mutant)
    install(mutant)
    return True


def main(names: Sequence[str]) -> int:
    wanted = list(names) or [each["name"] for each in read_made() if _is_open(each)]
    if not names:
        random.shuffle(wanted)
    for name in wanted:
        if not names and not any(_is_open(each) for each in read_made() if each["name"] == name):
            continue  # another process was faster
        mutant = MUTANTS[name]
        doubted: list[str] = []
        while True:
            node, cpu_s = run(mutant, [*nearest(mutant.path), *(f"--deselect={each}" for each in doubted)])
            if not node or len(doubted) == _DOUBTS_MAX or not run(None, [node])[0]:
                break
            print(f"{name}: {node} fails without it", flush=True)
            doubted.append(node)
        print(f"{name}: {node or 'SURVIVED'} ({cpu_s} s)", flush=True)
        _note(name, node, cpu_s)
    return 0


def _is_open(made: dict[str, Any]) -> bool:
    """Whether nothing is known of a mutant yet."""
    return not made.get("killed_by") and not made.get("equivalent") and "cpu_s" not in made


def _note(name: str, node: str, cpu_s: float) -> None:
    with MADE.open() as locked:
        fcntl.flock(locked, fcntl.LOCK_EX)
        made = read_made()
        for each in made:
            if each["name"] == name:
                each |= {"killed_by": node, "cpu_s": cpu_s}
        write_made(made)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
