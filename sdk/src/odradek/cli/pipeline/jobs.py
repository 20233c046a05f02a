"""`odradek jobs`: the jobs that are installed, and running one of them on a Spark of this machine.

A job is an entry point of the group `odradek.jobs`: `name = "package.module:main"`, with `main(argv) -> exit code`. The
wheel brings those of glue_jobs/; a package of your own may bring more. `list` reads docstrings and imports no job.
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

jobs = typer.Typer(cls=CommandGroup, help="List the jobs that are installed, and run them here.", no_args_is_help=True)


def installed() -> dict[str, EntryPoint]:
    """The jobs by name."""
    return {each.name: each for each in sorted(entry_points(group=GROUP), key=lambda each: each.name)}


def job_names(incomplete: str) -> list[str]:
    """The jobs whose names begin so."""
    return [name for name in installed() if name.startswith(incomplete)]


@jobs.command("list")
def list_jobs(output: OutputOption = Output.TABLE) -> None:
    """List the jobs and what each does."""
    rows = [{"job": name, "what_it_does": description(found)} for name, found in installed().items()]
    show_rows(rows, ["job", "what_it_does"], output)


def description(job: EntryPoint) -> str:
    """The first line of the docstring of a job's module, without the job's name; empty where there is none."""
    # The module itself is not imported: it would bring Spark. Its packages are, and they are empty.
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
    """Run a job on a Spark of this machine: `odradek jobs run NAME --help` lists the job's arguments.

    Where PYSPARK_SUBMIT_ARGS is set, it says which Spark.

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
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"there is no job {name!r}: {hint}")
    arguments = list(ctx.args)
    with extra("spark"):
        if not {"--help", "-h"} & set(arguments) and "PYSPARK_SUBMIT_ARGS" not in os.environ:
            prepare_spark()
        main = found.load()
    raise typer.Exit(main(arguments))
