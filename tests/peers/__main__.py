"""Ask both brokers and print what differs; see tests/peers/__init__.py."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path

import tests.peers
from bench.peers.kafka_broker import NoBroker
from bench.peers.maven import NoJars
from tests.peers import accepted
from tests.peers.accepted import Shown
from tests.peers.compare import Result, load_probes, running

UNEXPLAINED = Path(__file__).parents[2] / "build" / "peers" / "unexplained.toml"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.peers", description=tests.peers.__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", default=["*"], help="patterns of probes' names")
    parser.add_argument("--against", default="", help="a version of Apache Kafka instead of the Kafka port")
    parser.add_argument("--kafka", default="", help="another version of Apache Kafka than the pom's")
    parser.add_argument("--renew", action="store_true", help="write what was found of the accepted differences")
    parser.add_argument("--verbose", action="store_true", help="print the answers that are the same, too")
    options = parser.parse_args(argv)
    chosen = [
        probe for name, probe in load_probes().items() if any(fnmatch(name, pattern) for pattern in options.names)
    ]
    logging.getLogger("odradek.gateway").setLevel(logging.ERROR)  # many probes are there to have a connection closed
    began_s = time.monotonic()

    def done(result: Result) -> None:
        if options.verbose:
            print(f"{result.probe.name}\n    {result.first}", flush=True)

    try:
        with running(options.against, options.kafka) as pair:
            results = pair.compare_all(chosen, done)
    except (NoBroker, NoJars) as reason:
        print(reason, file=sys.stderr)
        return 2
    if options.renew:
        shown_by_probe = {result.probe.name: accepted.shown(result.differences) for result in results}
        accepted.FILE.write_text(accepted.renewed(accepted.load(), shown_by_probe))
    wanted = {} if options.against else expected()
    unexplained = print_results(results, wanted, (pair.first.name, pair.second.name))
    explained = sum(bool(result.differences) for result in results) - len(unexplained)
    print(
        f"{len(results)} probes, {len({api for api, _ in pair.asked})} APIs in {len(pair.asked)} versions: "
        f"{sum(not result.differences for result in results)} the same, {max(explained, 0)} accepted differences, "
        f"{len(unexplained)} unexplained; {time.monotonic() - began_s:.0f} s"
    )
    UNEXPLAINED.parent.mkdir(parents=True, exist_ok=True)
    UNEXPLAINED.write_text(accepted.to_toml(unexplained.items()))
    return 1 if unexplained and not options.against else 0


def expected() -> dict[str, Shown]:
    """The accepted differences by probe."""
    return {probe: dict(places) for difference in accepted.load() for probe, places in difference.probes.items()}


def print_results(results: Sequence[Result], wanted: Mapping[str, Shown], names: tuple[str, str]) -> dict[str, Shown]:
    """Print the probes whose differences are not the accepted ones; return those differences."""
    unexplained = {}
    for result in results:
        shown_now, accepted_ones = accepted.shown(result.differences), wanted.get(result.probe.name, {})
        if shown_now == accepted_ones:
            continue
        unexplained[result.probe.name] = shown_now
        print(f"\n{result.probe.name}")
        for question, (one, other) in shown_now.items():
            if accepted_ones.get(question) != (one, other):
                print(f"    {question}\n        {names[0]}: {one}\n        {names[1]}: {other}")
        for question in accepted_ones.keys() - shown_now.keys():
            print(f"    {question}: accepted in {accepted.FILE.name}, and no more")
    print()
    return unexplained


if __name__ == "__main__":
    raise SystemExit(main())
