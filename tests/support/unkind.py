"""Runs of one producer against an embedded service under one kind of trouble, judged by the log it leaves."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.numbered import Findings, Sent, judge, read_back
from tests.support.numbered_producers import Load, create_topic, recreate_topic
from tests.support.slow_service import RunningService, Unkindness, stalled

Write = Callable[[str, Load], Sent]


@dataclass(frozen=True)
class Trouble:
    """What a run meets. The default is nothing."""

    unkindness: Unkindness = field(default_factory=Unkindness)
    stopped_s: tuple[float, ...] = ()  # the service is stopped (SIGSTOP) for so long, in turn
    running_s: float = 3.0  # and runs for so long in between
    recreate_after_s: float = 0.0  # the topic is deleted this long after the beginning, and recreated; 0: never


LATE = Trouble(Unkindness(late_every=25, late_ms=800))  # writes that last longer than a successor used to wait
VERY_LATE = Trouble(Unkindness(late_every=60, late_ms=3_000))
FAILING = Trouble(Unkindness(failing_share=0.05))  # throttled, failed, timed out, a second late
STALLED = Trouble(stopped_s=(1.5, 3.0))
MOVING = Trouble(Unkindness(late_every=25, late_ms=800, gateways=2, moves_every_s=3.0))
RECREATED = Trouble(Unkindness(late_every=25, late_ms=800), recreate_after_s=3.0)


def run(data_dir: Path, trouble: Trouble, write: Write, load: Load, name: str) -> Findings:
    """Let a producer write through the trouble and judge what it left; prints the figures."""
    with RunningService(data_dir, trouble.unkindness) as service:
        create_topic(service.servers, load.topic, load.partitions)
        began_s = time.monotonic()
        with _stalls(service, trouble) as stalls, _recreation(service, trouble, load):
            sent = write(service.servers, load)
        took_s = time.monotonic() - began_s
    findings = judge(sent, read_back(data_dir, load.topic), recreated=trouble.recreate_after_s > 0)
    print(f"\n{name}: {findings}\n  in {took_s:.0f} s, {len(stalls)} stalls, the store {service.counts}")
    return findings


def _stalls(service: RunningService, trouble: Trouble) -> contextlib.AbstractContextManager[list[float]]:
    if not trouble.stopped_s:
        return contextlib.nullcontext([])
    return stalled(service.pid, trouble.stopped_s, trouble.running_s)


@contextlib.contextmanager
def _recreation(service: RunningService, trouble: Trouble, load: Load) -> Iterator[None]:
    if not trouble.recreate_after_s:
        yield
        return
    failed: list[BaseException] = []

    def work() -> None:
        time.sleep(trouble.recreate_after_s)
        try:
            recreate_topic(service.servers, load.topic, load.partitions, gone_s=1.0)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work, name="recreation")
    thread.start()
    try:
        yield
    finally:
        thread.join()
    if failed:
        raise failed[0]
