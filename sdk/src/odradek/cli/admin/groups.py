"""`odradek groups`: list, describe, delete, configure, export-offsets, reset-offsets; for groups of every kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from odradek.cli.admin.group_offsets import export_offsets, reset_offsets
from odradek.cli.command_group import CommandGroup
from odradek.cli.completion import group_names
from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, GroupId, Server, admin, run
from odradek.cli.output import Output, OutputOption, show_data, show_rows
from odradek.cli.screen import confirm
from odradek.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from odradek.operations.cluster import Cluster
    from odradek.operations.groups import GroupDetail

groups = typer.Typer(
    cls=CommandGroup, help="List, describe and delete groups; change their offsets.", no_args_is_help=True
)

groups.command("export-offsets")(export_offsets)
groups.command("reset-offsets")(reset_offsets)


@groups.command("list")
def list_groups(
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the groups with their states and types: consumer, classic, share, streams."""
    from odradek.operations import plain
    from odradek.operations.groups import list_groups as list_all

    rows = plain(run(bootstrap_servers, data_dir, lambda cluster: list_all(cluster.admin)))
    show_rows(rows, ["group", "state", "type"], output)


@groups.command()
def describe(
    group_id: Annotated[str | None, typer.Argument(help="Id of the group.", autocompletion=group_names)] = None,
    everything: Annotated[bool, typer.Option("--all", help="All groups.")] = False,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show members, committed offsets and lag of a group, or of all."""
    from odradek.operations.groups import describe_all, describe_group

    if (group_id is None) != everything:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "give the id of a group, or --all")
    if group_id is not None:
        wanted_id = group_id
        group = run(bootstrap_servers, data_dir, lambda cluster: describe_group(cluster.admin, wanted_id))
        if not show_data(_described(group), output):
            _show(group)
        return
    groups = run(bootstrap_servers, data_dir, lambda cluster: describe_all(cluster.admin))
    if not show_data([_described(detail) for detail in groups], output):
        for number, detail in enumerate(groups):
            if number:
                typer.echo("")
            _show(detail)


def _described(group: GroupDetail) -> dict[str, Any]:
    """Return a group as data. A share group has start offsets, and no members of partitions."""
    from odradek.operations import plain

    described: dict[str, Any] = plain(group)
    if group.is_share:
        described["partitions"] = [
            {"partition": partition["partition"], "start_offset": partition["committed"], "lag": partition["lag"]}
            for partition in described["partitions"]
        ]
    return described


def _show(group: GroupDetail) -> None:
    described = _described(group)
    protocol = "classic protocol" if group.epoch is None else f"epoch {group.epoch}"
    state = f"{group.state}  {protocol}" if group.reads_by_partition else f"{group.protocol}  {group.state}  {protocol}"
    typer.echo(f"{group.group}  {state}  {len(group.members)} members")
    for name, value in group.configs.items():
        typer.echo(f"{name} = {value}")
    if not group.is_share:
        show_rows(described["partitions"], ["partition", "committed", "next_offset", "lag", "client", "member"])
    else:
        show_rows(described["partitions"], ["partition", "start_offset", "lag"])
    if group.members and not group.reads_by_partition:
        typer.echo("")
        show_rows(described["members"], ["client", "topics" if group.is_share else "assigned", "member"])


@groups.command("in-flight")
def in_flight(
    group_id: GroupId,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a share group's records in flight: who holds them, how often they were delivered, when locks end.

    Reads the store itself, not the service.
    """
    from odradek.operations import plain
    from odradek.operations.storage import InFlight

    async def read(cluster: Cluster) -> list[InFlight]:
        async with cluster.open_store() as store:
            return await store.in_flight(group_id)

    rows = plain(run(bootstrap_servers, data_dir, read))
    columns = ["partition", "first_offset", "end_offset", "state", "deliveries", "lock_until_ms", "member"]
    show_rows(rows, columns, output)


@groups.command("dead-letters")
def list_dead_letters(
    group_id: GroupId,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many, the oldest first.")] = 100,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the dead letters of a share group that no redrive has passed."""
    from odradek.operations import plain
    from odradek.operations.redrive import dead_letters

    letters = plain(run(bootstrap_servers, data_dir, lambda cluster: dead_letters(cluster, group_id, limit)))
    columns = ["topic", "from_partition", "from_offset", "deliveries", "reason", "partition", "offset"]
    if not show_data(letters, output):
        show_rows(letters["letters"], columns)


@groups.command("redrive")
def redrive_letters(
    group_id: GroupId,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1_000, help="At most so many.")] = 1_000,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """Send the dead letters of a share group back to their topics, where every group of the topic sees them again.

    The next redrive continues behind this one: group GROUP.redrive has the positions.
    """
    from odradek.operations import plain
    from odradek.operations.redrive import redrive

    confirm(f"Send dead letters of {group_id} back to their topics?", yes=yes)
    done = run(bootstrap_servers, data_dir, lambda cluster: redrive(cluster, group_id, limit))
    if not show_data(plain(done), output):
        typer.echo(f"{done.sent} sent back, {done.passed_over} passed over, {done.left} left")


@groups.command()
def configure(
    group_id: Annotated[str, typer.Argument(help="Id of the group, which may not exist yet.")],
    values: Annotated[list[str], typer.Argument(help="name=value; name= resets to the default.")],
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Set the configuration of a share group, a consumer group or a streams group.

    Example: [bold]odradek groups configure mails share.auto.offset.reset=earliest[/bold]
    """
    pairs = [text.partition("=") for text in values]
    for (name, separator, _), text in zip(pairs, values, strict=True):
        if not separator or not name:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"invalid configuration {text!r}: use name=value")
    with admin(bootstrap_servers, data_dir) as client:
        client.alter_group_configs(
            group_id,
            {name: value for name, _, value in pairs if value},
            delete=[name for name, _, value in pairs if not value],
        )
    typer.echo(f"configured {group_id}")


@groups.command()
def delete(
    group_id: GroupId,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Delete a group without members, and its offsets."""
    confirm(f"Delete {group_id} and its offsets?", yes=yes)
    with admin(bootstrap_servers, data_dir) as client:
        client.delete_consumer_groups([group_id])
    typer.echo(f"deleted {group_id}")
