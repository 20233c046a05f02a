"""`python -m tests.simulation.planted [NAME ...]`: with which seed each planted bug is found, and at what cost.

What is found is kept in first_seeds.json, where the tests begin: a search of twenty seeds is then a run of one. A seed
that no longer shows its bug, after a change of the simulation, costs the search again, and no more. Bugs whose runs are
long are left to `make test-slow`.
"""

from __future__ import annotations

import json
import sys
import time

from tests.simulation.planted.bug import Found, first_seeds, keep_first_seeds
from tests.simulation.planted.listed import PLANTED
from tests.simulation.runner import simulate


def main(names: list[str]) -> int:
    """Search for the bugs, all by default; return 1 if one was not found."""
    seeds, missed = first_seeds(), 0
    for name in names or list(PLANTED):
        planted, began_s = PLANTED[name], time.process_time()
        for seed in planted.order(seeds[name].seed if name in seeds else None):
            with planted.patch():
                outcome = simulate(seed, planted.profile, change=planted.change)
            if outcome.problems:
                seeds[name] = Found(seed, outcome.steps)
                break
        else:
            missed += 1
            seeds.pop(name, None)
        cost = f"{time.process_time() - began_s:.1f} s of CPU"
        first_seed = seeds[name]._asdict() if name in seeds else {"seed": None}
        print(json.dumps({"bug": name, **first_seed, "of": planted.seeds, "cost": cost}), flush=True)
        keep_first_seeds({bug_name: seeds[bug_name] for bug_name in seeds if bug_name in PLANTED})
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
