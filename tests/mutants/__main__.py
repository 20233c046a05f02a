"""`make mutants`: which seeds of the simulation notice which mutant, and the share of those that are noticed.

    make mutants                              every mutant, up to 500 seeds each; results are kept, so it may be stopped
    make mutants ARGS="--only NAME"           one of them, again
    make mutants ARGS="--seeds 60 --jobs 1"   a first look
    make mutants ARGS="--report"              what is known so far
    make mutants ARGS="--tests"               run the tests that the list names, each with its mutant

A seed that fails without the mutant does not count (it is a finding of its own: `make sim`).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

from tests.mutants.listed import MUTANTS
from tests.mutants.mutation import Mutant

_RESULTS = Path(__file__).parents[2] / "bench" / "results" / "mutants.json"


class Results:
    """What is known: by mutant, of a certain content; and which seeds fail without any."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        known: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        self._mutants: dict[str, dict[str, Any]] = known.get("mutants", {})
        self._clean: dict[str, bool] = known.get("clean", {})

    def of(self, mutant: Mutant) -> dict[str, Any]:
        """The mutant's result; an empty one where there is none of this content."""
        found = self._mutants.get(mutant.name, {})
        return found if found.get("digest") == mutant.digest() else {}

    def keep(self, mutant: Mutant, result: dict[str, Any]) -> None:
        with self._lock:
            self._mutants[mutant.name] = {"digest": mutant.digest(), **result}
            self._write()

    def dirty_seeds(self) -> list[int]:
        """Seeds that fail without a mutant."""
        return [int(seed) for seed, clean in self._clean.items() if not clean]

    def is_clean(self, seed: int) -> bool:
        """Whether a seed passes without a mutant."""
        if str(seed) not in self._clean:
            clean = _trial(None, seed, 1, ())["found"] is None
            with self._lock:
                self._clean[str(seed)] = clean
                self._write()
        return self._clean[str(seed)]

    def _write(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"mutants": self._mutants, "clean": self._clean}, indent=1)
        self._path.with_suffix(".part").write_text(text)
        self._path.with_suffix(".part").replace(self._path)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this mutant, whatever is known")
    parser.add_argument("--seeds", type=int, default=500, help="how many a mutant, from 1")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--report", action="store_true", help="run nothing")
    parser.add_argument("--tests", action="store_true", help="run the tests that the list names")
    arguments = parser.parse_args(argv)
    if arguments.tests:
        return _run_tests(arguments.only)
    results = Results(_RESULTS)
    if not arguments.report:
        chosen = [MUTANTS[name] for name in arguments.only] or list(MUTANTS.values())
        asked = [each for each in chosen if not each.equivalent or arguments.only]
        with ThreadPoolExecutor(arguments.jobs) as pool:
            list(pool.map(lambda each: _examine(each, results, arguments.seeds, bool(arguments.only)), asked))
    return _report(results)


def _examine(mutant: Mutant, results: Results, seeds: int, again: bool) -> None:
    """Try seeds until a clean one notices, from where an earlier run stopped."""
    known = {} if again else results.of(mutant)
    if known.get("found") is not None:
        return
    at = int(known.get("tried", 0)) + 1
    while at <= seeds:
        outcome = _trial(mutant, at, seeds - at + 1, results.dirty_seeds())
        found = outcome["found"]
        if found is None:
            at = seeds + 1
        elif results.is_clean(found):
            results.keep(mutant, {"found": found, "problem": outcome["problem"], "tried": found})
            print(f"{mutant.name}: seed {found}, {outcome['problem'][:120]}", flush=True)
            return
        else:
            at = found + 1
        results.keep(mutant, {"found": None, "problem": "", "tried": at - 1})
    print(f"{mutant.name}: not noticed by {seeds} seeds", flush=True)


def _trial(mutant: Mutant | None, start: int, seeds: int, skipped: Any) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.mutants.trial", "--start", str(start), "--seeds", str(seeds)]
    if skipped:
        command += ["--skip", ",".join(map(str, sorted(skipped)))]
    if mutant is not None:
        command.append(mutant.name)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        return {"found": start, "problem": f"the process ended with {done.returncode}: {done.stderr[-200:]}"}
    outcome: dict[str, Any] = json.loads(lines[-1])
    return outcome


def _run_tests(only: list[str]) -> int:
    """Each named test must fail with its mutant."""
    bad = 0
    for mutant in MUTANTS.values():
        if not mutant.killed_by or (only and mutant.name not in only):
            continue
        command = [sys.executable, "-m", "tests.mutants.trial", mutant.name, "--test", mutant.killed_by]
        code = subprocess.run(command, capture_output=True, text=True, check=False).returncode
        bad += code != 1  # pytest: tests were run and some failed
        print(f"{mutant.name}: {mutant.killed_by} {'fails, as it must' if code == 1 else f'ended with {code}'}")
    return 1 if bad else 0


def _report(results: Results) -> int:
    noticed, tested, alive, unknown = [], [], [], []
    equivalent = [each for each in MUTANTS.values() if each.equivalent]
    for mutant in MUTANTS.values():
        known = results.of(mutant)
        if mutant.equivalent:
            continue
        if known.get("found") is not None:
            noticed.append((known["found"], mutant))
        elif mutant.killed_by:
            tested.append(mutant)
        elif known:
            alive.append(mutant)
        else:
            unknown.append(mutant)
    for mutant in equivalent:
        print(f"equivalent  {mutant.name}: {mutant.equivalent}")
    for mutant in tested:
        print(f"by a test   {mutant.name}: {mutant.killed_by}")
    for mutant in alive:
        print(f"SURVIVED    {mutant.name} ({mutant.path}), {results.of(mutant)['tried']} seeds")
    for mutant in unknown:
        print(f"not tried   {mutant.name}")
    count = len(MUTANTS) - len(equivalent)
    print(
        f"{len(noticed)} of {count} mutants noticed by the simulation ({len(noticed) / count:.0%}; "
        f"{sum(seed <= 60 for seed, _ in noticed)} within 60 seeds), {len(tested)} more by a test, {len(alive)} by "
        f"neither, {len(unknown)} not tried; {len(equivalent)} are equivalent"
    )
    if results.dirty_seeds():
        print(f"seeds that fail without a mutant: {', '.join(map(str, sorted(results.dirty_seeds())))}")
    return 1 if alive or unknown else 0


if __name__ == "__main__":
    sys.exit(main())
