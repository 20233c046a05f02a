"""`odradek triggers`: functions that are called with new records."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any

import typer

from odradek.cli.command_group import CommandGroup
from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, Server, run
from odradek.cli.output import Output, OutputOption, show_data, show_rows
from odradek.cli.screen import confirm
from odradek.model.trigger import document_of

triggers = typer.Typer(cls=CommandGroup, help="Call functions with the new records of a topic.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of the trigger.")]


@triggers.command()
def create(
    name: Name,
    topic: Annotated[str, typer.Option("--topic", "-t", help="The topic.")],
    function: Annotated[
        str,
        typer.Option("--function", "-f", help="ARN of a Lambda function; a URL; module:handler on `odradek local`."),
    ],
    batch_size: Annotated[int, typer.Option(help="Records of a call, 1 to 10,000.")] = 100,
    batching_window: Annotated[int, typer.Option(help="Seconds to wait for a full batch, 0 to 300.")] = 0,
    starting_position: Annotated[str, typer.Option(help="LATEST, TRIM_HORIZON, or AT_TIMESTAMP.")] = "LATEST",
    starting_timestamp: Annotated[
        str, typer.Option(help="Of AT_TIMESTAMP: ms since the epoch, or 2026-11-21T09:30:00.")
    ] = "",
    parallelization_factor: Annotated[
        int, typer.Option(help="Concurrent calls of a partition, 1 to 10; a key's records stay in order.")
    ] = 1,
    filters: Annotated[
        list[str] | None,
        typer.Option("--filter", help="A pattern of EventBridge over key, value and headers; may be repeated."),
    ] = None,
    retry_attempts: Annotated[int, typer.Option(help="Calls after one that failed, 0 to 10,000; -1: no limit.")] = -1,
    maximum_record_age: Annotated[
        int, typer.Option(help="Seconds after which a record is given up, 60 to 604,800; -1: never.")
    ] = -1,
    newest_only: Annotated[
        bool, typer.Option("--newest-only", help="Call with the newest waiting record alone: a wake-up.")
    ] = False,
    bisect: Annotated[bool, typer.Option("--bisect", help="Split a batch that failed.")] = False,
    on_failure: Annotated[
        str, typer.Option(help="Where records go that are given up: topic:NAME, sqs:URL, sns:ARN, s3:BUCKET/PREFIX.")
    ] = "",
    tumbling_window: Annotated[int, typer.Option(help="Seconds of windows with a state, 1 to 900; 0: none.")] = 0,
    timeout: Annotated[int, typer.Option(help="Seconds that a call may take, 1 to 840.")] = 60,
    group: Annotated[str, typer.Option(help="Consumer group with its offsets; trigger.NAME by default.")] = "",
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """Create a trigger.

    Example: [bold]odradek triggers create new-orders --topic orders --function arn:aws:lambda:...:function:f[/bold]
    """
    from odradek.operations.places import parse_time

    options = {
        "batch_size": batch_size,
        "batching_window_s": batching_window,
        "starting_position": starting_position,
        "starting_timestamp_ms": parse_time(starting_timestamp, "--starting-timestamp") if starting_timestamp else 0,
        "parallelization_factor": parallelization_factor,
        "filters": filters or [],
        "retry_attempts": retry_attempts,
        "maximum_record_age_s": maximum_record_age,
        "newest_only": newest_only,
        "bisect": bisect,
        "on_failure": on_failure,
        "tumbling_window_s": tumbling_window,
        "timeout_s": timeout,
        "group_id": group,
    }
    created = run(
        bootstrap_servers, data_dir, lambda cluster: cluster.admin.create_trigger(name, topic, function, **options)
    )
    if show_data(document_of(created, with_secret=bool(created.secret)), output):
        return
    typer.echo(f"created {created.name}")
    if created.secret:
        typer.echo(f"secret: {created.secret} (it signs the calls, and is not shown again)")


@triggers.command("list")
def list_triggers(
    progress: Annotated[
        bool, typer.Option("--progress", help="With lag, calls and last error: a request for each trigger.")
    ] = False,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the triggers, one per line."""
    from odradek.operations.triggers import TriggerProgress, TriggerRow, progress_of
    from odradek.operations.triggers import list_triggers as listed

    async def within(cluster: Any) -> tuple[list[TriggerRow], dict[str, TriggerProgress]]:
        rows = await listed(cluster.admin)
        return rows, await progress_of(cluster.admin, [row.name for row in rows] if progress else [])

    trigger_rows, done = run(bootstrap_servers, data_dir, within)
    columns = [field.name for field in fields(TriggerRow)]
    more = [field.name for field in fields(TriggerProgress) if progress and field.name not in columns]
    rows = [
        {name: getattr(row, name) for name in columns}
        | {name: getattr(done.get(row.name), name, None) for name in more}
        for row in trigger_rows
    ]
    show_rows(rows, columns + more, output)


@triggers.command()
def describe(
    name: Name,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """Print a trigger's options, lag, calls and last error."""
    from odradek.operations import plain
    from odradek.operations.triggers import TriggerPartition, describe_trigger

    detail = run(bootstrap_servers, data_dir, lambda cluster: describe_trigger(cluster.admin, name))
    document = {**plain(detail), "trigger": document_of(detail.trigger, with_secret=False)}
    if show_data(document, output):
        return
    for option, value in document["trigger"].items():
        typer.echo(f"{option}: {value}")
    typer.echo(f"lag: {detail.lag}  invocations: {detail.invocations}  failures: {detail.failures}")
    typer.echo(f"last error: {detail.last_error or 'none'}")
    columns = [field.name for field in fields(TriggerPartition)][:9]  # a line fits a terminal; JSON has the others
    show_rows([{column: getattr(row, column) for column in columns} for row in detail.partitions], columns, output)


@triggers.command()
def pause(name: Name, bootstrap_servers: Server = DEFAULT_SERVER, data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """Stop calling the function; calls that are under way end."""
    run(bootstrap_servers, data_dir, lambda cluster: cluster.admin.pause_trigger(name))
    typer.echo(f"paused {name}")


@triggers.command()
def resume(name: Name, bootstrap_servers: Server = DEFAULT_SERVER, data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """Call the function again, from where it was."""
    run(bootstrap_servers, data_dir, lambda cluster: cluster.admin.resume_trigger(name))
    typer.echo(f"resumed {name}")


@triggers.command()
def reset(
    name: Name,
    to: Annotated[str, typer.Option("--to", help="earliest, latest, or @TIME.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the new offsets and set nothing.")] = False,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """Set the offsets of a paused trigger.

    Example: [bold]odradek triggers reset new-orders --to @2026-11-21T09:30:00[/bold]
    """
    from odradek.operations import plain
    from odradek.operations.triggers import preview_reset, reset_trigger

    if dry_run:
        planned = run(bootstrap_servers, data_dir, lambda cluster: preview_reset(cluster.admin, name, to, "--to"))
        show_rows([plain(row) for row in planned], ["partition", "committed", "new"], output)
        return
    offsets = run(bootstrap_servers, data_dir, lambda cluster: reset_trigger(cluster.admin, name, to, "--to"))
    rows = [{"partition": number, "offset": offset} for number, offset in sorted(offsets.items())]
    show_rows(rows, ["partition", "offset"], output)


@triggers.command()
def delete(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Delete a trigger and its offsets."""
    confirm(f"Delete the trigger {name} and its offsets?", yes=yes)
    run(bootstrap_servers, data_dir, lambda cluster: cluster.admin.delete_trigger(name))
    typer.echo(f"deleted {name}")
