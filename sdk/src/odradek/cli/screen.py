"""What commands show and ask: tables that are whole in a pipe too, and questions before something is deleted."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.table import Table

from odradek.errors import OdradekError


def show(table: Table) -> None:
    """Print a table without cutting a cell: names and ids are copied, and `grep` looks for them.

    On a narrow terminal its lines run over; a pipe is as wide as the table.
    """
    console = Console(markup=False, highlight=False)
    width = console.measure(table, options=console.options.update(max_width=1_000_000)).maximum
    Console(width=max(width, 1), markup=False, highlight=False, soft_wrap=True).print(table)


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
