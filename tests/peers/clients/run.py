"""Runs the program of one client against the services, and judges each task."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.peers.clients.install import BUILD, NotInstalled, command
from tests.peers.clients.matrix import TASKS, Client
from tests.peers.clients.services import Services, prefix_of

_LIMIT_S = 420


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one version: `ok`, `absent: why`, `expected: why` or `failed: why` by task.

    Attributes:
        missing: why the client could not be installed; "" if it was.
    """

    client: str
    version: str
    tasks: Mapping[str, str] = field(default_factory=dict)
    missing: str = ""

    @property
    def failures(self) -> dict[str, str]:
        """The tasks that should have succeeded, or should have failed, and why."""
        return {task: outcome for task, outcome in self.tasks.items() if outcome.startswith("failed")}


def run_client(client: Client, services: Services, tasks: list[str] | None = None, folder: Path = BUILD) -> Result:
    """Install a client, run its program and compare what it reports with what the services hold.

    Args:
        tasks: only these; None runs all.
    """
    try:
        words = command(client, folder)
    except NotInstalled as missing:
        return Result(client.name, client.version, missing=str(missing))
    prefix = prefix_of(client)
    log = folder / f"{prefix}.log"
    with log.open("w") as errors:
        try:
            ended = subprocess.run(
                [*words, json.dumps(services.config(prefix, tasks or []))],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                timeout=_LIMIT_S,
                check=False,
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            )
            output = ended.stdout
        except subprocess.TimeoutExpired as slow:
            output = slow.stdout.decode() if isinstance(slow.stdout, bytes) else str(slow.stdout or "")
    return Result(client.name, client.version, _judged(client, services, output, tasks or list(TASKS)))


def _judged(client: Client, services: Services, output: str, tasks: list[str]) -> dict[str, str]:
    reported: dict[str, tuple[str, str]] = {}
    for line in output.splitlines():
        name, _, outcome_and_reason = line.partition("\t")
        outcome, _, why = outcome_and_reason.partition("\t")
        if name in TASKS and outcome in ("ok", "absent", "failed"):
            reported[name] = outcome, why
    faults = services.faults(prefix_of(client), {name: outcome for name, (outcome, _) in reported.items()})
    expected = dict(client.expected)
    judged: dict[str, str] = {}
    for task in tasks:
        outcome, why = reported.get(task, ("failed", "the program ended before it"))
        if task in faults:
            outcome, why = "failed", faults[task]
        if task in expected:
            has_failed = outcome == "failed"
            outcome, why = ("expected", expected[task]) if has_failed else ("failed", "succeeds: remove it from matrix")
        judged[task] = f"{outcome}: {why}" if why else outcome
    return judged
