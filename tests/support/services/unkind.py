"""Runs of one producer against an embedded service under one kind of trouble, judged by the log it leaves."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.clients.numbered import Findings, Sent, judge, read_back
from tests.support.clients.numbered_producers import Load, create_topic, recreate_topic
from tests.support.services.slow_service import RunningService, Unkindness

Write = Callable[[str, Load], Sent]


@dataclass(frozen=True)
class Trouble:
    """Failures during a run. The default has none."""

    unkindness: Unkindness = field(default_factory=Unkindness)
    stopped_s: tuple[float, ...] = ()  # the service is stopped (SIGSTOP) for so long, in turn
    running_s: float = 3.0  # and runs for so long in between
    killed_every_s: float = 0.0  # the service is killed (SIGKILL) after so long, and started again; 0: never
    recreate_after_s: float = 0.0  # topics are deleted from then on, and recreated a second later; 0: never


LATE = Trouble(Unkindness(late_every=25, late_ms=800))  # writes that last longer than a successor used to wait
VERY_LATE = Trouble(Unkindness(late_every=60, late_ms=3_000))
FAILING = Trouble(Unkindness(failing_share=0.05))  # throttled, failed, timed out, a second late
STALLED = Trouble(stopped_s=(1.5, 3.0))
MOVING = Trouble(Unkindness(late_every=25, late_ms=800, gateways=2, moves_every_s=3.0))
CRASHING = Trouble(Unkindness(late_every=25, late_ms=800, gateways=2, moves_every_s=3.0, crashes=True))
KILLED = Trouble(Unkindness(late_every=25, late_ms=800), killed_every_s=5.0)
EVERYTHING = Trouble(
    Unkindness(late_every=40, late_ms=800, failing_share=0.02, gateways=2, moves_every_s=4.0),
    stopped_s=(0.7, 1.5),
    running_s=5.0,
)
RECREATED = Trouble(Unkindness(late_every=25, late_ms=800), recreate_after_s=3.0)


def run(data_dir: Path, trouble: Trouble, write: Write, load: Load, name: str) -> Findings:
    """Let a producer write through the trouble and judge what it left; prints the figures."""
    return run_together(data_dir, trouble, {name: (write, load)})[name]


def run_together(data_dir: Path, trouble: Trouble, writers: dict[str, tuple[Write, Load]]) -> dict[str, Findings]:
    """`run` for several producers at once, by name, each of a topic of its own."""
    loads = [load for _, load in writers.values()]
    with RunningService(data_dir, trouble.unkindness, broker_session_ms=2_000) as service:
        for load in loads:
            create_topic(service.servers, load.topic, load.partitions)
        began_s = time.monotonic()
        with _troubled(service, trouble, loads), ThreadPoolExecutor(len(writers)) as pool:
            futures = {name: pool.submit(write, service.servers, load) for name, (write, load) in writers.items()}
            sent = {name: future.result() for name, future in futures.items()}
        took_s = time.monotonic() - began_s
    meant = {
        "stalls": bool(trouble.stopped_s),
        "kills": bool(trouble.killed_every_s),
        "recreations": bool(trouble.recreate_after_s),
    }
    missed = [
        trouble_kind for trouble_kind, was_meant in meant.items() if was_meant and not service.troubles[trouble_kind]
    ]
    assert not missed, f"the run ended before it met any {missed}: make it longer"
    logs = read_back(data_dir, *(load.topic for load in loads))
    print(f"\nin {took_s:.0f} s {dict(service.troubles)}, the store {service.counts}")
    findings = {}
    for name, (_, load) in writers.items():
        findings[name] = judge(sent[name], logs[load.topic], recreated=bool(trouble.recreate_after_s))
        print(f"{name}: {findings[name]}")
    return findings


def _troubled(service: RunningService, trouble: Trouble, loads: list[Load]) -> contextlib.ExitStack:
    """Make trouble for the service while the stack is open."""
    stack = contextlib.ExitStack()
    if trouble.stopped_s:
        stack.enter_context(meanwhile(lambda ended: _stall(service, trouble, ended)))
    if trouble.killed_every_s:
        stack.enter_context(meanwhile(lambda ended: _kill(service, trouble, ended)))
    if trouble.recreate_after_s:
        stack.enter_context(meanwhile(lambda ended: _recreate(service, trouble, loads, ended)))
    return stack


def _stall(service: RunningService, trouble: Trouble, ended: threading.Event) -> None:
    for pause_s in itertools.cycle(trouble.stopped_s):
        if ended.wait(trouble.running_s):
            return
        os.kill(service.pid, signal.SIGSTOP)
        try:
            time.sleep(pause_s)
        finally:
            os.kill(service.pid, signal.SIGCONT)
        service.troubles["stalls"] += 1


def _kill(service: RunningService, trouble: Trouble, ended: threading.Event) -> None:
    while not ended.wait(trouble.killed_every_s):
        service.kill()
        service.start()
        service.troubles["kills"] += 1


def _recreate(service: RunningService, trouble: Trouble, loads: list[Load], ended: threading.Event) -> None:
    if not ended.wait(trouble.recreate_after_s):
        for load in loads:
            recreate_topic(service.servers, load.topic, load.partitions, gone_s=1.0)
            service.troubles["recreations"] += 1


@contextlib.contextmanager
def meanwhile(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run `work` in a thread while the block runs; the event tells it to end. Raises what it raised."""
    ended, failures = threading.Event(), list[Exception]()

    def run_work() -> None:
        try:
            work(ended)
        except Exception as failure:
            failures.append(failure)

    thread = threading.Thread(target=run_work, name="meanwhile")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    if failures:
        raise failures[0]
