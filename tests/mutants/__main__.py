"""`make mutants`: which seeds of the simulation notice which mutant, and the share of those that are noticed.

    make mutants                              every mutant, up to 500 seeds each; results are kept, so it may be stopped
    make mutants ARGS="--only NAME"           one of them, again
    make mutants ARGS="--seeds 60 --jobs 1"   a first look
    make mutants ARGS="--report"              what is known so far
    make mutants ARGS="--tests"               run the tests that the list names, each with its mutant

Seeds draw their profiles. Those of profiles that live on the mutated part come first (`_NEAR`): it is the same seeds in
another order, so that what is noticed is noticed soon. For the same reason a few seeds of every mutant are tried before
more of any (`_ROUNDS`). What is known is in measured.json; it holds as long as the mutated file is the same, and for
the simulation with which it was measured: after a change of the actors, begin without the file. A seed that fails
without the mutant does not count (it is a finding of its own: `make sim`).
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from random import Random
from threading import Lock, local
from typing import Any

from tests.mutants.listed import MUTANTS
from tests.mutants.mutation import Mutant
from tests.simulation.scenario import draw

_NEAR = {
    "engine/append/order": ("stock",),
    "engine/append": ("log", "stock", "leaders"),
    "engine/partition/maintenance_lease": ("upkeep", "compaction"),
    "engine/partition/spill": ("log", "crowd", "leaders"),
    "engine/partition/leader_epochs": ("leaders", "transactions"),
    "engine/partition": ("log", "upkeep", "leaders"),
    "engine/catalog": ("topics", "everything"),
    "engine/leaders": ("leaders",),
    "engine/read": ("upkeep", "compaction", "topics", "log"),
    "engine/transactions": ("transactions", "everything"),
    "engine/maintenance": ("upkeep", "compaction", "share"),
    "engine/compaction": ("compaction",),
    "engine/offsets": ("groups", "classic", "transactions"),
    "engine/groups": ("groups", "everything", "large_groups"),
    "engine/classic": ("classic",),
    "engine/share": ("share",),
    "gateway": ("stock",),
}
_ROUNDS = (6, 30)  # seeds of each mutant; then all
_TRIAL = (sys.executable, "-m", "tests.mutants.trial")
_NEEDS_A_PROCESS = 3
_AT_ONCE = 10  # seeds, then what is known is written
_RESULTS = Path(__file__).with_name("measured.json")


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
            clean = not any(problem for _, problem in _trial(None, [seed]))
            with self._lock:
                self._clean[str(seed)] = clean
                self._write()
        return self._clean[str(seed)]

    def _write(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        known = {
            "mutants": {name: self._mutants[name] for name in sorted(self._mutants)},
            "clean": {seed: self._clean[seed] for seed in sorted(self._clean, key=int)},
        }
        text = re.sub(r",\s+(?=\d)", ", ", json.dumps(known, indent=1)) + "\n"
        self._path.with_suffix(".part").write_text(text)
        self._path.with_suffix(".part").replace(self._path)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this mutant, whatever is known")
    parser.add_argument("--seeds", type=int, default=500, help="how many a mutant, from 1")
    parser.add_argument("--near", action="store_true", help="only seeds of the nearest profiles")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--report", action="store_true", help="run nothing")
    parser.add_argument("--tests", action="store_true", help="run the tests that the list names")
    arguments = parser.parse_args(argv)
    if arguments.tests:
        return _run_tests(arguments.only, arguments.jobs)
    results = Results(_RESULTS)
    if not arguments.report:
        chosen = [MUTANTS[name] for name in arguments.only] or list(MUTANTS.values())
        asked = [each for each in chosen if not each.equivalent or arguments.only]
        asked.sort(key=lambda each: sha256(each.name.encode()).digest())  # so that a part of them speaks for all
        for count in (*_ROUNDS, arguments.seeds):
            with ThreadPoolExecutor(arguments.jobs) as pool:
                list(pool.map(lambda each, most=count: _examine(each, results, arguments, most), asked))
    return _report(results)


def _examine(mutant: Mutant, results: Results, arguments: argparse.Namespace, most: int) -> None:
    """Try up to `most` seeds until a clean one notices; those tried earlier are not tried again."""
    known = {} if arguments.only and most == _ROUNDS[0] else results.of(mutant)
    if known.get("found") is not None:
        return
    order = _order(mutant, arguments.seeds, near_only=arguments.near)
    tried = {int(each) for each in known.get("tried", ())}
    while left := [seed for seed in order[:most] if seed not in tried and seed not in results.dirty_seeds()]:
        try:
            outcomes = _trial(mutant, left[:_AT_ONCE])
            tried.update(seed for seed, _ in outcomes)
            seed, problem = outcomes[-1]
            if problem and results.is_clean(seed):
                results.keep(mutant, {"found": seed, "after": len(tried), "problem": problem})
                print(f"{mutant.name}: seed {seed}, {problem[:120]}", flush=True)
                return
            results.keep(mutant, {"found": None, "problem": "", "tried": sorted(tried)})
        except RuntimeError as error:
            print(f"{mutant.name}: {error}", flush=True)
            return
    if most == arguments.seeds:
        print(f"{mutant.name}: not noticed by {len(tried)} seeds", flush=True)


def _order(mutant: Mutant, seeds: int, *, near_only: bool) -> list[int]:
    """The seeds from 1, those of the nearest profiles first."""
    near = mutant.near or next(profiles for path, profiles in _NEAR.items() if mutant.path.startswith(path))
    profiles = {seed: draw(Random(seed)).profile for seed in range(1, seeds + 1)}
    ranks = {seed: near.index(profile) if profile in near else len(near) for seed, profile in profiles.items()}
    return [seed for seed in sorted(ranks, key=ranks.__getitem__) if not (near_only and ranks[seed] == len(near))]


class _Servers:
    """Processes that run mutants, one for each thread: started once, they fork for every mutant (trial.py)."""

    def __init__(self) -> None:
        self._own = local()

    def run(self, arguments: list[str]) -> Iterator[dict[str, Any]]:
        """The lines of one trial. Raises RuntimeError where it fails."""
        process = getattr(self._own, "process", None)
        if process is None or process.poll() is not None:
            command = [*_TRIAL, "--serve"]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self._own.process = process
        process.stdin.write(json.dumps(arguments) + "\n")
        process.stdin.flush()
        for line in process.stdout:
            told = json.loads(line)
            if "code" not in told:
                yield told
            elif told["code"] == _NEEDS_A_PROCESS:
                yield from _alone(arguments)
                return
            elif told["code"]:
                raise RuntimeError(f"{arguments} ended with {told['code']}")
            else:
                return
        raise RuntimeError(f"{arguments}: the process that runs mutants has ended")


_SERVERS = _Servers()


def _alone(arguments: list[str]) -> Iterator[dict[str, Any]]:
    done = subprocess.run([*_TRIAL, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{arguments} ended with {done.returncode}: {done.stderr[-500:]}")
    yield from map(json.loads, done.stdout.splitlines())


def _trial(mutant: Mutant | None, seeds: list[int]) -> list[tuple[int, str]]:
    """Seed after seed, what is wrong with it, until something is. Raises RuntimeError where the process fails."""
    arguments = ["--seeds", ",".join(map(str, seeds)), *([mutant.name] if mutant is not None else [])]
    return [(told["seed"], told["problem"]) for told in _SERVERS.run(arguments)]


def _run_tests(only: list[str], jobs: int) -> int:
    """Each named test must fail with its mutant."""
    chosen = [each for each in MUTANTS.values() if each.killed_by and (not only or each.name in only)]

    def fails(mutant: Mutant) -> bool:
        command = [sys.executable, "-m", "tests.mutants.trial", mutant.name, "--test", mutant.killed_by]
        code = subprocess.run(command, capture_output=True, text=True, check=False).returncode
        is_good = code == 1  # pytest: tests were run and some failed
        verdict = "fails, as it must" if is_good else f"ended with {code}"
        print(f"{mutant.name}: {mutant.killed_by} {verdict}", flush=True)
        return is_good

    with ThreadPoolExecutor(jobs) as pool:
        good = sum(pool.map(fails, chosen))
    print(f"{good} of {len(chosen)} named tests fail with their mutants")
    return 0 if good == len(chosen) else 1


def _report(results: Results) -> int:
    noticed, tested, alive, unknown = [], [], [], []
    equivalent = [each for each in MUTANTS.values() if each.equivalent]
    for mutant in MUTANTS.values():
        known = results.of(mutant)
        if mutant.equivalent:
            continue
        if known.get("found") is not None:
            noticed.append((known["after"], mutant))
        elif mutant.killed_by:
            tested.append(mutant)
        elif known:
            alive.append(mutant)
        else:
            unknown.append(mutant)
    for mutant in equivalent:
        print(f"equivalent  {mutant.name}: {mutant.equivalent}")
    for mutant in tested:
        count = len(results.of(mutant).get("tried", ()))
        why = f" ({mutant.unseen})" if mutant.unseen else ""
        print(f"by a test   {mutant.name}, {count} seeds{why}: {mutant.killed_by}")
    for mutant in alive:
        print(f"SURVIVED    {mutant.name} ({mutant.path}), {len(results.of(mutant)['tried'])} seeds")
    for mutant in unknown:
        print(f"not tried   {mutant.name}")
    count = len(MUTANTS) - len(equivalent)
    tried = sum(bool(results.of(mutant)) for mutant in MUTANTS.values() if not mutant.equivalent)
    print(
        f"{len(noticed)} of {count} mutants noticed by the simulation ({len(noticed) / count:.0%}; "
        f"{sum(after <= 60 for after, _ in noticed)} by the first 60 seeds), {len(tested)} more by a test, "
        f"{len(alive)} by neither; {tried} tried; {len(equivalent)} are equivalent"
    )
    if results.dirty_seeds():
        print(f"seeds that fail without a mutant: {', '.join(map(str, sorted(results.dirty_seeds())))}")
    return 1 if alive or unknown else 0


if __name__ == "__main__":
    sys.exit(main())
