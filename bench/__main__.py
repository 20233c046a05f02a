"""`make bench`: every question, one after the other; `--quick` for a shorter answer, names for some only.

Questions of the engine alone are in `bench.engine`, of a gateway under load in `bench.gateway`, the others here; what
is measured beside us, and what starts it, in `bench.peers`.
"""

from __future__ import annotations

import argparse
import importlib

QUESTIONS = (
    *("throughput", "engine.append", "engine.contention", "engine.share_window", "clients", "kafka_port", "pipeline"),
    *(
        "groups",
        "engine.codec",
        "cold_start",
        "request_cpu",
        "scale_model",
        "fleet",
        "cost",
        "engine.validation",
        "gateway.abuse",
        "gateway.connections",
        "gateway.catch_up",
        "gateway.requests",
        "growth",
        "console",
        "connect",
        "connect_databases",
        "triggers",
        "tables",
        "values",
        "sql",
        "streams",
        "stream_latency",
    ),
)


def main(argv: list[str] | None = None) -> int:
    """Run the benches; the exit code is the first that is not 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of: {', '.join(QUESTIONS)}")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args(argv)
    for name in arguments.names or QUESTIONS:
        print(f"\n== {name}", flush=True)
        code = importlib.import_module(f"bench.{name}").main(["--quick"] if arguments.quick else [])
        if code:
            return int(code)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
