"""`python -m tests.simulation --seed N --runs M`: run seeds, print what is wrong, exit 1 if anything is."""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from os import cpu_count

from tests.simulation.runner import Outcome, simulate


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--runs", type=int, default=200, help="how many seeds from there")
    parser.add_argument("--trace", action="store_true", help="print the trace of the (one) run")
    parser.add_argument("--workers", type=int, default=cpu_count() or 1)
    arguments = parser.parse_args(argv)
    started = time.monotonic()
    seeds = range(arguments.seed, arguments.seed + arguments.runs)
    bad: list[Outcome] = []
    acked = steps = 0
    with ProcessPoolExecutor(max_workers=1 if arguments.runs == 1 else arguments.workers) as pool:
        for outcome in pool.map(simulate, seeds, chunksize=max(1, min(20, arguments.runs // 8))):
            acked, steps = acked + outcome.acked, steps + outcome.steps
            if arguments.trace:
                print("\n".join(outcome.trace))
            if outcome.problems:
                bad.append(outcome)
                print(f"seed {outcome.seed}: {len(outcome.problems)} problems")
                for problem in outcome.problems[:10]:
                    print(f"    {problem}")
                print(f"    replay: make sim SEED={outcome.seed} RUNS=1")
    print(
        f"{len(seeds) - len(bad)} of {len(seeds)} runs clean: {acked} acknowledged records, "
        f"{steps} port calls and faults, "
        f"{time.monotonic() - started:.1f} s"
    )
    if arguments.runs == 1:
        print(f"trace digest {outcome.digest}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
