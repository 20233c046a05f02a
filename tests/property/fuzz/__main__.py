"""`python -m tests.property.fuzz --inputs 1000000 --seed 1`: damaged bytes into every decoder, replayable one by one.

Input n of a target follows from the seed and n alone; a failure prints the command that repeats it. The inputs run in a
child, so that even one that kills the interpreter is named. Memory is the child's peak,
the slowest input by CPU time.
"""

from __future__ import annotations

import argparse
import mmap
import os
import random
import resource
import signal
import struct
import sys
import time
import traceback
from types import FrameType

from odradek.errors import OdradekError

from tests.property.fuzz.targets import TARGETS, Target

INPUT_S_MAX = 30  # one input that takes longer hangs: the slowest good one takes milliseconds
GROWTH_MIB_MAX = 512  # of the peak after warm-up: a limit of decompression, and room for the allocator
_WARM_UP = 200
_PLACE = struct.Struct("qq")  # target, input


class Hung(BaseException):
    """Not an Exception: no decoder may swallow it."""


def _hung(number: int, frame: FrameType | None) -> None:
    raise Hung(f"no answer within {INPUT_S_MAX} s")


def share(target: Target, inputs: int) -> int:
    """How many of a run's inputs the target gets."""
    return max(1, inputs * target.weight // sum(target.weight for target in TARGETS))


def fuzz(target: Target, number: int, seed: int, start: int, count: int, progress: mmap.mmap) -> dict[str, float]:
    """Feed inputs [start, start + count) to a target. Raises whatever a decoder should not have raised."""
    chance = random.Random()
    accepted, slowest_s = 0, 0.0
    began = time.perf_counter()
    for n in range(start, start + count):
        _PLACE.pack_into(progress, 0, number, n)
        chance.seed(seed << 64 | number << 48 | n)
        signal.setitimer(signal.ITIMER_REAL, INPUT_S_MAX)
        input_began = time.process_time()
        try:
            accepted += target.run(chance)
        except OdradekError:
            pass
        slowest_s = max(slowest_s, time.process_time() - input_began)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return {"accepted": accepted, "slowest_s": slowest_s, "seconds": time.perf_counter() - began}


def peak_mib() -> float:
    """The largest resident size of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run(targets: list[tuple[int, Target]], seed: int, start: int, inputs: int, progress: mmap.mmap) -> int:
    """Fuzz the targets and print a line for each; 0, or 1 after the first failure."""
    signal.signal(signal.SIGALRM, _hung)
    for number, target in targets:  # compiles kernels, makes corpora
        fuzz(target, number, seed, 0, min(_WARM_UP, inputs), progress)
    base_mib = peak_mib()
    print(f"{'target':16} {'inputs':>9} {'accepted':>9} {'refused':>9} {'us each':>8} {'slowest ms':>10}", flush=True)
    total, total_s = 0, 0.0
    for number, target in targets:
        count = inputs if len(targets) == 1 else share(target, inputs)
        figures = fuzz(target, number, seed, start, count, progress)
        accepted = int(figures["accepted"])
        print(
            f"{target.name:16} {count:9,} {accepted:9,} {count - accepted:9,} {figures['seconds'] / count * 1e6:8.0f}"
            f" {figures['slowest_s'] * 1e3:10.1f}",
            flush=True,
        )
        total, total_s = total + count, total_s + figures["seconds"]
    growth = peak_mib() - base_mib
    print(f"{total:,} inputs in {total_s:.0f} s; peak memory {peak_mib():.0f} MiB, {growth:.0f} more than at the start")
    if growth > GROWTH_MIB_MAX:
        print(f"FAILED: more than {GROWTH_MIB_MAX} MiB for one input", flush=True)
        return 1
    return 0


def main(argv: list[str] | None = None) -> int:
    """Parse arguments, fuzz in a child, name the input that failed."""
    names = [target.name for target in TARGETS]
    parser = argparse.ArgumentParser(prog="python -m tests.property.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", choices=names, help="this one alone")
    parser.add_argument("--start", type=int, default=0, help="number of the first input")
    arguments = parser.parse_args(argv)
    targets = [(n, target) for n, target in enumerate(TARGETS) if arguments.target in (None, target.name)]
    progress = mmap.mmap(-1, _PLACE.size)
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = run(targets, arguments.seed, arguments.start, arguments.inputs, progress)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        number, n = _PLACE.unpack_from(progress, 0)
        why = f"signal {-code}" if code < 0 else "exception"
        again = f"--seed {arguments.seed} --target {TARGETS[number].name!r} --start {n} --inputs 1"
        print(f"FAILED ({why}); repeat it with\n  python -m tests.property.fuzz {again}")
    return 1 if code else 0


if __name__ == "__main__":
    raise SystemExit(main())
