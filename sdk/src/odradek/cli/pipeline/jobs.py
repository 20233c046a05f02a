"""`odradek jobs`: list the installed jobs, run one on a local Spark; runs of a deployment's jobs on Glue.

A job is an entry point of the group `odradek.jobs`: `name = "package.module:main"`, with `main(argv) -> exit code`. The
wheel contains those of glue_jobs/; other packages may add more. `list` reads docstrings and imports no job.
"""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from odradek.cli.command_group import CommandGroup
from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, Server, connected
from odradek.cli.output import Output, OutputOption, show_data, show_rows
from odradek.cli.pipeline.spark_here import prepare_spark
from odradek.errors import ErrorCode, KafkaError
from odradek.extras import extra
from odradek.operations.jobs.installed import installed, installed_jobs
from odradek.operations.records.export import iso_time

if TYPE_CHECKING:
    from odradek.model.job_run import JobRun
    from odradek.ports.job_runs import JobRuns

_RUN = ["state", "started", "seconds", "dpu_hours", "error"]

jobs = typer.Typer(
    cls=CommandGroup, help="List the installed jobs, run them here, and steer runs on Glue.", no_args_is_help=True
)

DeployedJob = Annotated[str, typer.Argument(help="The job: word_count, or its name on Glue.")]
OnGlue = Annotated[str | None, typer.Argument(help="The job: word_count, or its name on Glue.")]


def job_names(incomplete: str) -> list[str]:
    """Return the jobs whose names begin with `incomplete`."""
    return [name for name in installed() if name.startswith(incomplete)]


@jobs.command("list")
def list_jobs(output: OutputOption = Output.TABLE) -> None:
    """List the jobs with a description."""
    from odradek.operations import plain

    show_rows([plain(job) for job in installed_jobs()], ["job", "what_it_does"], output)


@jobs.command("runs")
def list_runs(
    name: OnGlue = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Runs at most.")] = 20,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the runs of a job on Glue, the newest first; without a name, all jobs with their last runs.

    Example: [bold]odradek jobs runs word_count --output json[/bold]
    """
    from odradek.operations import plain
    from odradek.operations.jobs.runs import full_name, job_rows, runs_of

    runs = _deployed(bootstrap_servers, data_dir)
    if name is None:
        rows = job_rows(runs)
        if not show_data([plain(row) for row in rows], output):
            lines = [{"job": row.job.name} | ({} if row.last is None else _line(row.last)) for row in rows]
            show_rows(lines, ["job", *_RUN])
        return
    job_runs = runs_of(runs, full_name(runs, name), limit)
    if not show_data([plain(job_run) for job_run in job_runs], output):
        show_rows([{"run_id": job_run.run_id, **_line(job_run)} for job_run in job_runs], ["run_id", *_RUN])


@jobs.command("progress")
def progress(
    name: DeployedJob,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """Print what the streaming queries of a job on Glue last said: rates, state, lag."""
    from odradek.operations import plain
    from odradek.operations.jobs.runs import full_name, metrics_of
    from odradek.system import SystemClock

    runs = _deployed(bootstrap_servers, data_dir)
    metrics = metrics_of(runs, full_name(runs, name), SystemClock().now_ms())
    rows = [plain(point) | {"at": iso_time(point.at_ms)} for point in metrics]
    columns = ["query", "rows_per_s", "batch_ms", "state_rows", "state_bytes", "lag_offsets", "lag_s", "at"]
    show_rows(rows, columns, output)


@jobs.command("start")
def start(
    name: DeployedJob,
    argument: Annotated[
        list[str] | None, typer.Option("--argument", "-a", help="NAME=VALUE of the job; may be repeated.")
    ] = None,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Start a run of a job on Glue. It is billed by DPU hours until it ends.

    Example: [bold]odradek jobs start word_count -a input_topic=lines -a output_topic=words[/bold]
    """
    from odradek.operations.jobs.runs import full_name, parse_arguments, start_run

    arguments = parse_arguments(argument or [])
    runs = _deployed(bootstrap_servers, data_dir)
    typer.echo(f"started {start_run(runs, full_name(runs, name), arguments)}")


@jobs.command("stop")
def stop(
    name: DeployedJob,
    run_id: Annotated[str, typer.Option("--run", help="The run; by default the one that is under way.")] = "",
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Stop a run of a job on Glue; its checkpoint stays, and the next run continues there."""
    from odradek.operations.jobs.runs import full_name, stop_run

    runs = _deployed(bootstrap_servers, data_dir)
    typer.echo(f"stopping {stop_run(runs, full_name(runs, name), run_id)}")


def _deployed(bootstrap_servers: str, data_dir: Path) -> JobRuns:
    """Return the jobs of the deployment. Raises KafkaError(INVALID_CONFIG) for other services."""
    job_runs = connected(bootstrap_servers, data_dir).job_runs()
    if job_runs is None:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            "jobs run on Glue for a deployment that `odradek configure` knows; `odradek jobs run` runs one here",
        )
    return job_runs


def _line(run: JobRun) -> dict[str, object]:
    """Return a run for a table."""
    return {
        "state": run.state,
        "started": iso_time(run.started_ms),
        "seconds": run.seconds,
        "dpu_hours": None if run.dpu_hours is None else round(run.dpu_hours, 3),
        "error": run.error,
    }


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
    job = installed().get(name.replace("-", "_"))
    if job is None:
        job_names = list(installed())
        close = difflib.get_close_matches(name.replace("-", "_"), job_names, n=1)
        hint = f"did you mean {close[0]}?" if close else f"use {', '.join(job_names)}"
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"unknown job {name!r}: {hint}")
    arguments = list(ctx.args)
    with extra("spark"):
        if not {"--help", "-h"} & set(arguments) and "PYSPARK_SUBMIT_ARGS" not in os.environ:
            prepare_spark()
        main = job.load()
    raise typer.Exit(main(arguments))
