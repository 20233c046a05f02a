"""`odradek groups`: list, describe, delete, configure, export-offsets, reset-offsets; groups of every kind."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, Server, admin
from odradek.cli.group_offsets import export_offsets, reset_offsets
from odradek.cli.screen import confirm, show
from odradek.errors import ErrorCode, KafkaError

groups = typer.Typer(help="List, describe and delete consumer groups; move their offsets.", no_args_is_help=True)

groups.command("export-offsets")(export_offsets)
groups.command("reset-offsets")(reset_offsets)


@groups.command("list")
def list_groups(bootstrap_servers: Server = DEFAULT_SERVER, data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """List the groups with their states and kinds: consumer, classic, share."""
    with admin(bootstrap_servers, data_dir) as client:
        listings = client.list_consumer_groups()
    for group in sorted(listings, key=lambda each: each.group_id):
        typer.echo(f"{group.group_id}\t{group.state}\t{group.group_type}")


@groups.command()
def describe(
    group_id: Annotated[str, typer.Argument(help="Id of the group.")],
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Show a group's members, committed offsets and lag."""
    with admin(bootstrap_servers, data_dir) as client:
        kinds = {listing.group_id: listing.group_type for listing in client.list_consumer_groups()}
        if kinds.get(group_id) == "share":
            _describe_share(client, group_id)
            return
        group = client.describe_consumer_groups([group_id])[group_id]
        committed = client.list_consumer_group_offsets(group_id)
        latest = client.list_offsets(dict.fromkeys(committed, "latest"))
    owners = {partition: member for member in group.members for partition in member.assignment}
    console = Console()
    protocol = "classic protocol" if group.group_epoch < 0 else f"epoch {group.group_epoch}"
    console.print(f"[bold]{escape(group_id)}[/bold]  {group.state}  {protocol}  {len(group.members)} members")
    table = Table("partition", "committed", "next offset", "lag", "member", "client", box=None)
    for partition in sorted({*committed, *owners}):
        offset = committed[partition].offset if partition in committed else None
        end = latest[partition].offset if partition in latest else None
        owner = owners.get(partition)
        table.add_row(
            str(partition),
            "-" if offset is None else str(offset),
            "-" if end is None else str(end),
            "-" if offset is None or end is None else str(end - offset),
            owner.member_id if owner else "-",
            owner.client_id if owner else "-",
        )
    show(table)


def _describe_share(client: Any, group_id: str) -> None:
    group = client.describe_share_groups([group_id])[group_id]
    offsets = client.list_share_group_offsets(group_id)
    own = {name: entry.value for name, entry in client.describe_group_configs(group_id).items() if not entry.is_default}
    console = Console()
    standing = f"{group.state}  epoch {group.group_epoch}  {len(group.members)} members"
    console.print(f"[bold]{escape(group_id)}[/bold]  share  {standing}")
    for name, value in sorted(own.items()):
        console.print(f"{name} = {value}")
    table = Table("partition", "start offset", "lag", box=None)
    for partition, at in sorted(offsets.items()):
        table.add_row(str(partition), str(at.start_offset), "-" if at.lag < 0 else str(at.lag))
    show(table)
    for member in group.members:
        console.print(f"{member.member_id}  {member.client_id}  {', '.join(member.subscribed_topics)}")


@groups.command()
def configure(
    group_id: Annotated[str, typer.Argument(help="Id of the group; it need not exist yet.")],
    values: Annotated[list[str], typer.Argument(help="name=value; name= goes back to the default.")],
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Set the configuration of a share group or a consumer group.

    Example: [bold]odradek groups configure mails share.auto.offset.reset=earliest[/bold]
    """
    pairs = [text.partition("=") for text in values]
    for (name, found, _), text in zip(pairs, values, strict=True):
        if not found or not name:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"a configuration is name=value, not {text!r}")
    with admin(bootstrap_servers, data_dir) as client:
        client.alter_group_configs(
            group_id,
            {name: value for name, _, value in pairs if value},
            delete=[name for name, _, value in pairs if not value],
        )
    typer.echo(f"configured {group_id}")


@groups.command()
def delete(
    group_id: Annotated[str, typer.Argument(help="Id of the group.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Delete a group without members, and its offsets."""
    confirm(f"Delete {group_id} and its offsets?", yes=yes)
    with admin(bootstrap_servers, data_dir) as client:
        client.delete_consumer_groups([group_id])
    typer.echo(f"deleted {group_id}")
