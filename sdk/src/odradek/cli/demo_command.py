"""`odradek demo`: the main job on real data, checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    data_dir: Annotated[Path, typer.Option("--data-dir", help="Folder for the store and the results.")] = Path(".demo"),
    keep: Annotated[bool, typer.Option("--keep", help="Go on with the store that is there.")] = False,
) -> None:
    """Stream a year of New York's flights through the functions, aggregate them with Spark, check the result."""
    from odradek.cli.demo import run_demo

    raise typer.Exit(run_demo(data_dir, keep=keep))
