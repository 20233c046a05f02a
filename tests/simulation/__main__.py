"""`python -m tests.simulation --seed N --runs M`: run seeds, print what is wrong, exit 1 if anything is."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from tests.simulation.runner import Outcome, simulate
from tests.simulation.scenario import PROFILES

_PROBLEMS_SHOWN = 10


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--runs", type=int, default=200, help="how many seeds from there")
    parser.add_argument("--profile", choices=sorted(PROFILES), help="one kind of scenario; else the seed draws it")
    parser.add_argument("--trace", action="store_true", help="print the traces")
    parser.add_argument("--jobs", type=int, default=2, help="processes that share the seeds")
    arguments = parser.parse_args(argv)
    started = time.monotonic()
    seeds = range(arguments.seed, arguments.seed + arguments.runs)
    total: Counter[str] = Counter()
    work: Counter[str] = Counter()
    bad = 0
    one = partial(_one, profile=arguments.profile, with_trace=arguments.trace)
    with ProcessPoolExecutor(max_workers=max(1, min(arguments.jobs, arguments.runs))) as pool:
        for outcome in pool.map(one, seeds, chunksize=max(1, min(20, arguments.runs // 8))):
            total.update(acked=outcome.acked, steps=outcome.steps, hours=outcome.hours)  # type: ignore[arg-type]
            total[outcome.profile] += 1
            work.update(outcome.work)
            if arguments.trace:
                print("\n".join(outcome.trace))
            if outcome.problems:
                bad += 1
                _report(outcome, arguments.profile)
    print(
        f"{len(seeds) - bad} of {len(seeds)} runs clean: {total['acked']:,} acknowledged records, "
        f"{total['steps']:,} port calls and faults, {total['hours']:,.0f} virtual hours, "
        f"{time.monotonic() - started:.1f} s"
    )
    print("profiles: " + ", ".join(f"{name} {total[name]}" for name in sorted(PROFILES)))
    if work:
        print("maintenance: " + ", ".join(f"{name} {count:,}" for name, count in sorted(work.items())))
    if arguments.runs == 1:
        print(f"trace digest {outcome.digest}")
    return 1 if bad else 0


def _one(seed: int, *, profile: str | None, with_trace: bool) -> Outcome:
    outcome = simulate(seed, profile)
    return outcome if with_trace else outcome.without_trace()


def _report(outcome: Outcome, profile: str | None) -> None:
    print(f"seed {outcome.seed} ({outcome.profile}): {len(outcome.problems)} problems")
    for problem in outcome.problems[:_PROBLEMS_SHOWN]:
        print(f"    {problem}")
    arguments = "" if profile is None else f" --profile {profile}"
    print(f'    replay: make sim SEED={outcome.seed} RUNS=1 ARGS="--trace{arguments}"', flush=True)


if __name__ == "__main__":
    sys.exit(main())
