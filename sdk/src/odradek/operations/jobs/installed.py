"""The jobs that are installed here. A job is an entry point of the group `odradek.jobs`: `main(argv) -> exit code`."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

GROUP = "odradek.jobs"


@dataclass(frozen=True, slots=True)
class InstalledJob:
    """A job of this installation."""

    job: str
    what_it_does: str


def installed() -> dict[str, EntryPoint]:
    """Return the jobs by name."""
    return {each.name: each for each in sorted(entry_points(group=GROUP), key=lambda each: each.name)}


def installed_jobs() -> list[InstalledJob]:
    """Return the jobs with a description each, by name. No job is imported."""
    return [InstalledJob(name, description(found)) for name, found in installed().items()]


def description(job: EntryPoint) -> str:
    """Return the first docstring line of a job's module, without the job's name; empty if there is none."""
    # The module is not imported: it would import Spark. Its packages are imported, and they are empty.
    spec = find_spec(job.module)
    if spec is None or spec.origin is None:
        return ""
    text = ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or ""
    first = text.splitlines()[0] if text else ""
    return first.removeprefix(f"{job.name}: ")
