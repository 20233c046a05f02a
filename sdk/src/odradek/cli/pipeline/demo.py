"""`odradek demo`: the main job on real data, with checks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    data_dir: Annotated[Path, typer.Option("--data-dir", help="Folder for the store and the results.")] = Path(".demo"),
    keep: Annotated[bool, typer.Option("--keep", help="Continue with the existing store.")] = False,
    records: Annotated[int | None, typer.Option("--records", min=1, help="Only the first so many flights.")] = None,
    crash_at: Annotated[
        int | None, typer.Option("--crash-at", min=1, help="Kill the service after so many records, then restart it.")
    ] = None,
) -> None:
    """Stream a year of New York's flights through the functions, aggregate with Spark, and compare with pandas.

    Example: [bold]odradek demo --records 20000 --crash-at 8000[/bold]
    """
    from odradek.cli.demo import run_demo

    raise typer.Exit(run_demo(data_dir, keep=keep, records=records, crash_at=crash_at))
