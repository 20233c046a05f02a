"""One mutant in this process: simulate seed after seed until one notices; a line of JSON for each on standard output.

`python -m tests.mutants.trial NAME --seeds log:1,log:2`. Without a name nothing is changed. A seed that takes longer
than `CPU_S_A_SEED` of CPU time (a clean one takes half a second) counts as noticed: the mutant runs for ever. With
`--test NODE` a test is run instead of seeds; one that has not ended after `S_A_TEST` seconds waits for ever: it fails.

`--serve` reads such arguments (a list, JSON) line by line from standard input. Each is run by a fork of this process,
which has imported everything, and ends with a line `{"code": ...}`; 3: the mutant needs a process of its own.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import signal
import sys

from tests.mutants.listed import MUTANTS
from tests.mutants.mutation import exchange, install

CPU_S_A_SEED = 20.0
S_A_TEST = 60
_NEEDS_A_PROCESS = 3
_COLLECTIONS = 50_000, 20, 20  # a run makes much, and little of it in cycles: a quarter of the time otherwise


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.trial", description=__doc__)
    parser.add_argument("name", nargs="?")
    parser.add_argument("--seeds", default="log:1", help="which, by commas: profile and number")
    parser.add_argument("--test", help="a pytest node id to run instead")
    parser.add_argument("--serve", action="store_true", help="more of these, from standard input")
    arguments = parser.parse_args()
    if arguments.serve:
        return _serve(parser)
    if arguments.name:
        install(MUTANTS[arguments.name])
    if arguments.test:
        return _test(arguments.test)
    _search(arguments.seeds.split(","))
    return 0


def _serve(parser: argparse.ArgumentParser) -> int:
    import tests.simulation.runner  # noqa: F401

    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            arguments = parser.parse_args(json.loads(line))
            if arguments.name and not exchange(MUTANTS[arguments.name]):
                os._exit(_NEEDS_A_PROCESS)
            _search(arguments.seeds.split(","))
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(json.dumps({"code": code}), flush=True)
    return 0


def _test(node: str) -> int:
    import pytest

    return int(pytest.main(["-q", "-x", "-n", "0", "-p", "no:cacheprovider", "--timeout", str(S_A_TEST), node]))


def _search(seeds: list[str]) -> None:
    """Tell of each seed what is wrong with it, up to the first with which something is."""
    current = {"seed": seeds[0]}

    def tell(problem: str) -> None:
        print(json.dumps({"seed": current["seed"], "problem": problem[:300]}), flush=True)

    def hangs(*_: object) -> None:
        tell(f"more than {CPU_S_A_SEED:.0f} s of CPU time")
        os._exit(0)

    signal.signal(signal.SIGVTALRM, hangs)
    try:
        from tests.simulation.runner import simulate
    except Exception as error:
        return tell(f"cannot be imported: {type(error).__name__}: {error}")
    gc.freeze()
    gc.set_threshold(*_COLLECTIONS)
    for current["seed"] in seeds:
        signal.setitimer(signal.ITIMER_VIRTUAL, CPU_S_A_SEED)
        try:
            profile, number = current["seed"].split(":")
            outcome = simulate(int(number), profile)
            problem = outcome.problems[0] if outcome.problems else ""
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        tell(problem)
        if problem:
            return None
    return None


if __name__ == "__main__":
    sys.exit(main())
