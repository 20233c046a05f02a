"""Questions before something is deleted, and progress of long work."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from odradek.errors import OdradekError

Advance = Callable[[int], None]
_STEP_S = 0.1  # between two updates


def confirm(question: str, *, yes: bool) -> None:
    """Ask for confirmation unless `yes`. Raises OdradekError if the answer is no, or if nobody can answer."""
    if yes:
        return
    try:
        agreed = typer.confirm(question, err=True)
    except typer.Abort as abort:
        if isinstance(abort.__context__, EOFError):
            raise OdradekError("there is no terminal to confirm on: add --yes; nothing was done") from None
        raise
    if not agreed:
        raise OdradekError("nothing was done")


@contextmanager
def waiting(activity: str, then: str) -> Iterator[None]:
    """Tell on standard error what a long wait is for, how long it took, and what comes next."""
    typer.echo(f"{activity} ...", err=True)
    start = time.monotonic()
    yield
    typer.echo(f"{activity}: took {time.monotonic() - start:.0f} s; {then}", err=True)


@contextmanager
def progress(activity: str, total: int | None, *, shown: bool = True, unit: str = "records") -> Iterator[Advance]:
    """Show the progress of long work on standard error, only on a terminal and only while it lasts.

    Args:
        activity: a word before the bar.
        total: the number of units; None if it is unknown: a count is shown instead of a bar.
        shown: False shows nothing, for output to the same terminal.
        unit: bytes are shown in their multiples.

    Yields a function to call with the number of units done since the last call.
    """
    if not (shown and sys.stderr.isatty()):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    count = DownloadColumn() if unit == "bytes" else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), count, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=1 / _STEP_S) as bar:
        task = bar.add_task(activity, total=total)
        yield lambda units: bar.advance(task, units)
