"""What commands say beside their results: questions before something is deleted, and how far long work has come."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from odradek.errors import OdradekError

Advance = Callable[[int], None]
_STEP_S = 0.1  # between two drawings


def confirm(question: str, *, yes: bool) -> None:
    """Ask, unless `yes`. Raises OdradekError where the answer is no, or nobody answers."""
    if yes:
        return
    try:
        agreed = typer.confirm(question, err=True)
    except typer.Abort as abort:
        if isinstance(abort.__context__, EOFError):
            raise OdradekError("nobody answers: say --yes where nobody can be asked; nothing was done") from None
        raise
    if not agreed:
        raise OdradekError("nothing was done")


@contextmanager
def progress(what: str, total: int | None, *, shown: bool = True, unit: str = "records") -> Iterator[Advance]:
    """Show on standard error how far long work has come; on a terminal alone, and gone when it ends.

    Args:
        what: is done, as a word before the bar.
        total: of units; None: not known, so that a count is shown in place of a bar.
        shown: False shows nothing: standard output is the same terminal.
        unit: bytes are shown in their multiples.

    Yields what to call with the units done since the last call.
    """
    if not (shown and sys.stderr.isatty()):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    count = DownloadColumn() if unit == "bytes" else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), count, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=1 / _STEP_S) as bar:
        task = bar.add_task(what, total=total)
        yield lambda units: bar.advance(task, units)
