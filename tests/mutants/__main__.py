"""`make mutants`: which seeds of the simulation notice which mutant, and the share of those that are noticed.

    make mutants                              every mutant, up to 500 seeds each; results are kept, so it may be stopped
    make mutants ARGS="--only NAME"           one of them, again
    make mutants ARGS="--seeds 60 --jobs 1"   a first look
    make mutants ARGS="--again"               those that were noticed, too: first the seeds that noticed them
    make mutants ARGS="--report"              what is known so far
    make mutants ARGS="--tests"               run the tests that the list names, each with its mutant

Mutants that were made by rule (rules.py) are tried by the nearest tests (by_tests.py), and not by the simulation, which
does not run most of what they change. `python -m tests.mutants.rules` draws others where the code has changed.

A seed is one of a profile: `log:7` is what `make sim SEED=7 RUNS=1 ARGS="--profile log"` runs. Each mutant gets
those of the profiles that live on the mutated part (`_NEAR`), since the others never come there: first those of the
small profiles, which take a tenth of the time, then those of the large ones. A few of each mutant are tried before more
of any (`_ROUNDS`). What is known is in measured.json; it holds as long as the mutated function is the same. After
changes around it, or of the simulation, `--again` tries each seed that noticed something once more. A seed that fails
without the mutant does not count (it is a finding of its own: `make sim`).
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from threading import Lock, local
from typing import Any

from tests.mutants import by_tests, rules
from tests.mutants.listed import MUTANTS
from tests.mutants.mutation import Mutant
from tests.mutants.verdicts import RESULTS, verdict
from tests.simulation.small_profiles import SMALL

_NEAR = {
    "engine/append/order": ("connections",),
    "engine/append": ("duel", "crowded", "storm"),
    "engine/partition/maintenance_lease": ("tidy", "rewritten", "upkeep", "compaction"),
    "engine/partition/spill": ("crowded", "duel", "storm", "crowd"),
    "engine/partition/shared_spill": ("throng", "crowded", "storm"),
    "engine/partition/producer_places": ("throng", "crowded", "duel"),
    "engine/partition/leader_epochs": ("incarnations", "crowded", "leaders", "transactions"),
    "engine/partition/claims": ("incarnations", "leaders", "storm"),
    "engine/partition": ("duel", "tidy", "storm"),
    "engine/catalog": ("topics", "everything"),
    "engine/leaders": ("incarnations", "leaders", "storm"),
    "engine/read": ("duel", "rewritten", "storm", "compaction"),
    "engine/transactions": ("contest", "copies", "handover", "exchange", "transactions"),
    "engine/maintenance": ("tidy", "duel", "storm", "upkeep"),
    "engine/compaction": ("compacting", "duel", "compaction", "storm"),
    "engine/offsets": ("rebalance", "groups"),
    "engine/groups": ("rebalance", "groups", "large_groups"),
    "engine/streams": ("standbys", "streams"),
    "engine/classic": ("roll_call", "classic"),
    "engine/share": ("poison", "share"),
    "gateway": ("stock",),
}
_SMALL_SHARE = 0.6  # of a mutant's seeds, where small profiles are near
_ROUNDS = (12, 60)  # seeds of each mutant; then all
_TRIAL = (sys.executable, "-m", "tests.mutants.trial")
_NEEDS_A_PROCESS = 3
_AT_ONCE = 10  # seeds, then what is known is written


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

    def noticed_by(self, mutant: Mutant) -> str | None:
        """The seed that noticed it last time, whatever has changed since."""
        found: str | None = self._mutants.get(mutant.name, {}).get("found")
        return found

    def doubt(self) -> None:
        """Do not believe that anything was noticed; by which seeds is remembered."""
        for known in self._mutants.values():
            if known["found"] is not None:
                known["digest"] = ""
        self._clean = {}

    def keep(self, mutant: Mutant, result: dict[str, Any]) -> None:
        with self._lock:
            self._mutants[mutant.name] = {"digest": mutant.digest(), **result}
            self._write()

    def dirty_seeds(self) -> list[str]:
        """Seeds that fail without a mutant."""
        return [seed for seed, clean in self._clean.items() if not clean]

    def is_clean(self, seed: str) -> bool:
        """Whether a seed passes without a mutant."""
        if seed not in self._clean:
            clean = not any(problem for _, problem in _trial(None, [seed]))
            with self._lock:
                self._clean[seed] = clean
                self._write()
        return self._clean[seed]

    def _write(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        known = {
            "mutants": {name: self._mutants[name] for name in sorted(self._mutants)},
            "clean": {seed: self._clean[seed] for seed in sorted(self._clean)},
        }
        text = re.sub(r'(?<=\d"),\s+(?="\w+:\d+")', ", ", json.dumps(known, indent=1)) + "\n"
        self._path.with_suffix(".part").write_text(text)
        self._path.with_suffix(".part").replace(self._path)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this mutant, whatever is known")
    parser.add_argument("--seeds", type=int, default=500, help="how many a mutant")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--most", type=int, default=500, help="seeds of each mutant to try at most by now")
    parser.add_argument("--again", action="store_true", help="whatever is known")
    parser.add_argument("--report", action="store_true", help="run nothing")
    parser.add_argument("--tests", action="store_true", help="run the tests that the list names")
    arguments = parser.parse_args(argv)
    if arguments.tests:
        return _run_tests(arguments.only, arguments.jobs)
    results = Results(RESULTS)
    if arguments.again:
        results.doubt()
    if not arguments.report:
        chosen = [MUTANTS[name] for name in arguments.only] or list(MUTANTS.values())
        made = [each.name for each in chosen if each.made_by]
        asked = [each for each in chosen if not each.made_by and (not each.equivalent or arguments.only)]
        asked.sort(key=lambda each: sha256(each.name.encode()).digest())  # so that a part of them speaks for all
        most = min(arguments.most, arguments.seeds)
        for count in (*(each for each in _ROUNDS if each < most), most):
            with ThreadPoolExecutor(arguments.jobs) as pool:
                list(pool.map(lambda each, most=count: _examine(each, results, arguments, most), asked))
        if made:
            by_tests.main(made if arguments.only else [])
    return _report(results) | _report_made()


def _examine(mutant: Mutant, results: Results, arguments: argparse.Namespace, most: int) -> None:
    """Try up to `most` seeds until a clean one notices; those tried earlier are not tried again."""
    known = {} if arguments.only and most == _ROUNDS[0] else results.of(mutant)
    if known.get("found") is not None:
        return
    order = _seeds(mutant, arguments.seeds)
    before = results.noticed_by(mutant)
    if before in order:
        order.remove(before)
        order.insert(0, before)
    tried = set(order).intersection(known.get("tried", ()))
    while left := [seed for seed in order[:most] if seed not in tried and seed not in results.dirty_seeds()]:
        try:
            outcomes = _trial(mutant, left[:_AT_ONCE])
            tried.update(seed for seed, _ in outcomes)
            seed, problem = outcomes[-1]
            if problem and results.is_clean(seed):
                results.keep(mutant, {"found": seed, "after": len(tried), "problem": problem})
                print(f"{mutant.name}: seed {seed}, {problem[:120]}", flush=True)
                return
            results.keep(mutant, {"found": None, "problem": "", "tried": sorted(tried, key=order.index)})
        except RuntimeError as error:
            print(f"{mutant.name}: {error}", flush=True)
            return
    if most == arguments.seeds:
        print(f"{mutant.name}: not noticed by {len(tried)} seeds", flush=True)


def _seeds(mutant: Mutant, count: int) -> list[str]:
    """The mutant's seeds: those of the small profiles that are near, then those of the large ones, each by turns."""
    near = mutant.near or next(profiles for path, profiles in _NEAR.items() if mutant.path.startswith(path))
    small = [profile for profile in near if profile in SMALL]
    large = [profile for profile in near if profile not in SMALL]
    of_small = int(count * _SMALL_SHARE) if small and large else count if small else 0
    return [*_by_turns(small, of_small), *_by_turns(large, count - of_small)]


def _by_turns(profiles: Sequence[str], count: int) -> list[str]:
    return [f"{profiles[number % len(profiles)]}:{number // len(profiles) + 1}" for number in range(count)]


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


def _trial(mutant: Mutant | None, seeds: list[str]) -> list[tuple[str, str]]:
    """Seed after seed, what is wrong with it, until something is. Raises RuntimeError where the process fails."""
    arguments = ["--seeds", ",".join(seeds), *([mutant.name] if mutant is not None else [])]
    return [(told["seed"], told["problem"]) for told in _SERVERS.run(arguments)]


def _run_tests(only: list[str], jobs: int) -> int:
    """Each named test must fail with its mutant."""
    chosen = [each for each in MUTANTS.values() if each.killed_by and (each.name in only if only else not each.made_by)]

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


def _report_made() -> int:
    """Print the mutants that were made by rule, by area."""
    made = rules.read_made()
    for each in made:
        if each.get("equivalent"):
            print(f"equivalent  {each['name']}: {each['equivalent']}")
        elif "cpu_s" in each and not each.get("killed_by"):
            print(f"SURVIVED    {each['name']}, {each['cpu_s']} s of the nearest tests")
    print(f"{'made by rule':20} {'mutants':>8} {'noticed':>8} {'equivalent':>11} {'survived':>9} {'not tried':>10}")
    total: Counter[str] = Counter()
    for area in dict.fromkeys(each["area"] for each in made):
        counts = Counter(verdict(each) for each in made if each["area"] == area)
        total += counts
        print(_row(area, counts))
    print(_row("all", total))
    return 1 if total["survived"] or total["not tried"] else 0


def _row(area: str, counts: Counter[str]) -> str:
    numbers = (sum(counts.values()), counts["noticed"], counts["equivalent"], counts["survived"], counts["not tried"])
    return "{:20} {:>8} {:>8} {:>11} {:>9} {:>10}".format(area, *numbers)


def _report(results: Results) -> int:
    noticed, tested, alive, unknown = [], [], [], []
    by_hand = [each for each in MUTANTS.values() if not each.made_by]
    equivalent = [each for each in by_hand if each.equivalent]
    for mutant in by_hand:
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
    count = len(by_hand) - len(equivalent)
    tried = sum(bool(results.of(mutant)) for mutant in by_hand if not mutant.equivalent)
    print(
        f"{len(noticed)} of {count} mutants noticed by the simulation ({len(noticed) / count:.0%}; "
        f"{sum(after <= 60 for after, _ in noticed)} by the first 60 seeds), {len(tested)} more by a test, "
        f"{len(alive)} by neither; {tried} tried; {len(equivalent)} are equivalent"
    )
    if results.dirty_seeds():
        print(f"seeds that fail without a mutant: {', '.join(sorted(results.dirty_seeds()))}")
    return 1 if alive or unknown else 0


if __name__ == "__main__":
    sys.exit(main())
