"""Kafka's own performance tools for Java, with their defaults, against any server: rates, and the CPU of the process.

Classes ProducerPerformance and ConsumerPerformance of kafka-tools, as `kafka-producer-perf-test.sh` and
`kafka-consumer-perf-test.sh` run them.

    python -m bench.peers.java_tools HOST:PORT TOPIC [--count 100000] [--size 1024]       a topic that exists
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess

from bench.peers.maven import APACHE_KAFKA, NoJars, maven_jars

_TIMEOUT_S = 300
_SENT = re.compile(r"^(\d+) records sent, ([\d.]+) records/sec .*?([\d.]+) ms 50th.*?([\d.]+) ms 99th", re.MULTILINE)


def produce(servers: str, topic: str, count: int, size: int) -> dict[str, float]:
    """Send records as fast as the producer can; return s, cpu_s, p50_ms and p99_ms. Raises NoJars."""
    properties = ["--producer-props", f"bootstrap.servers={servers}"]
    output, cpu_s = _run(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, "--num-records", str(count), "--record-size", str(size), "--throughput", "-1"),
        *properties,
    )
    totals = _SENT.findall(output)
    if not totals or int(totals[-1][0]) != count:
        raise SystemExit(f"ProducerPerformance failed:\n{output[-2000:]}")
    _, rate, p50_ms, p99_ms = totals[-1]
    return {"s": count / float(rate), "cpu_s": cpu_s, "p50_ms": float(p50_ms), "p99_ms": float(p99_ms)}


def consume(servers: str, topic: str, count: int) -> dict[str, float]:
    """Read records; return s, without what joining the group took, and cpu_s. Raises NoJars."""
    output, cpu_s = _run(
        "org.apache.kafka.tools.ConsumerPerformance",
        *("--bootstrap-server", servers, "--topic", topic, "--messages", str(count), "--hide-header"),
    )
    # start, end, MB, MB/s, records, records/s, ms to join, ms of fetching, MB/s and records/s of fetching
    lines = [line.split(", ") for line in output.splitlines() if line.count(", ") == 9]
    if not lines or int(lines[-1][4]) < count:
        raise SystemExit(f"ConsumerPerformance failed:\n{output[-2000:]}")
    return {"s": int(lines[-1][7]) / 1000, "cpu_s": cpu_s}


def _run(class_name: str, *arguments: str) -> tuple[str, float]:
    """Run a tool: return its output and the CPU seconds that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    classpath = os.pathsep.join(map(str, maven_jars(APACHE_KAFKA)))
    command = ["java", "-Xmx512m", "-cp", classpath, class_name, *arguments]
    run = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if run.returncode:
        raise SystemExit(f"{class_name} failed:\n{(run.stdout + run.stderr)[-2000:]}")
    return run.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(argv: list[str] | None = None) -> int:
    """Produce to a topic, read it, and print both rates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("servers")
    parser.add_argument("topic")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--size", type=int, default=1024)
    arguments = parser.parse_args(argv)
    try:
        sent = produce(arguments.servers, arguments.topic, arguments.count, arguments.size)
        read = consume(arguments.servers, arguments.topic, arguments.count)
    except NoJars as reason:
        print(reason)
        return 1
    for step, took in (("produced", sent), ("consumed", read)):
        print(f"{step} {arguments.count / took['s']:,.0f} records/s, {took['cpu_s']:.1f} s of CPU")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
