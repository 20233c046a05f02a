"""`odradek jobs`: list the installed jobs, and run one on a local Spark.

A job is an entry point of the group `odradek.jobs`: `name = "package.module:main"`, with `main(argv) -> exit code`. The
wheel contains those of glue_jobs/; other packages may add more. `list` reads docstrings and imports no job.
"""

from __future__ import annotations

import ast
import difflib
import os
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from odradek.cli.command_group import CommandGroup
from odradek.cli.output import Output, OutputOption, show_rows
from odradek.cli.pipeline.spark_here import prepare_spark
from odradek.errors import ErrorCode, KafkaError
from odradek.extras import extra

GROUP = "odradek.jobs"

jobs = typer.Typer(cls=CommandGroup, help="List the installed jobs, and run them here.", no_args_is_help=True)


def installed() -> dict[str, EntryPoint]:
    """Return the jobs by name."""
    return {each.name: each for each in sorted(entry_points(group=GROUP), key=lambda each: each.name)}


def job_names(incomplete: str) -> list[str]:
    """Return the jobs whose names begin with `incomplete`."""
    return [name for name in installed() if name.startswith(incomplete)]


@jobs.command("list")
def list_jobs(output: OutputOption = Output.TABLE) -> None:
    """List the jobs with a description."""
    rows = [{"job": name, "what_it_does": description(found)} for name, found in installed().items()]
    show_rows(rows, ["job", "what_it_does"], output)


def description(job: EntryPoint) -> str:
    """Return the first docstring line of a job's module, without the job's name; empty if there is none."""
    # The module is not imported: it would import Spark. Its packages are imported, and they are empty.
    spec = find_spec(job.module)
    if spec is None or spec.origin is None:
        return ""
    text = ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or ""
    first = text.splitlines()[0] if text else ""
    return first.removeprefix(f"{job.name}: ")


@jobs.command(
    "run",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
def run_job(
    ctx: typer.Context,
    name: Annotated[
        str,
        typer.Argument(help="The job; `odradek jobs run NAME --help` lists its arguments.", autocompletion=job_names),
    ],
) -> None:
    """Run a job on a local Spark: `odradek jobs run NAME --help` lists the job's arguments.

    PYSPARK_SUBMIT_ARGS, if set, chooses the Spark.

    Example: [bold]odradek jobs run word_count --store embedded:.odradek --bootstrap-servers http://127.0.0.1:9292
    --input-topic lines --output-topic words --checkpoint-location ./words --once[/bold]
    """
    if name in ("--help", "-h"):
        typer.echo(
            "Usage: odradek jobs run NAME [ARGUMENTS]; `odradek jobs run NAME --help` lists the job's arguments."
        )
        return
    found = installed().get(name.replace("-", "_"))
    if found is None:
        known = list(installed())
        close = difflib.get_close_matches(name.replace("-", "_"), known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"use {', '.join(known)}"
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"unknown job {name!r}: {hint}")
    arguments = list(ctx.args)
    with extra("spark"):
        if not {"--help", "-h"} & set(arguments) and "PYSPARK_SUBMIT_ARGS" not in os.environ:
            prepare_spark()
        main = found.load()
    raise typer.Exit(main(arguments))
