"""`odradek groups`: list, describe, delete, export-offsets, reset-offsets."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, Server, admin
from odradek.cli.group_offsets import export_offsets, reset_offsets

groups = typer.Typer(help="List, describe and delete consumer groups; move their offsets.", no_args_is_help=True)

groups.command("export-offsets")(export_offsets)
groups.command("reset-offsets")(reset_offsets)


@groups.command("list")
def list_groups(bootstrap_servers: Server = DEFAULT_SERVER, data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """List the groups and their states."""
    with admin(bootstrap_servers, data_dir) as client:
        listings = client.list_consumer_groups()
    for group in sorted(listings, key=lambda each: each.group_id):
        typer.echo(f"{group.group_id}\t{group.state}")


@groups.command()
def describe(
    group_id: Annotated[str, typer.Argument(help="Id of the group.")],
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Show a group's members, committed offsets and lag."""
    with admin(bootstrap_servers, data_dir) as client:
        group = client.describe_consumer_groups([group_id])[group_id]
        committed = client.list_consumer_group_offsets(group_id)
        latest = client.list_offsets(dict.fromkeys(committed, "latest"))
    owners = {partition: member for member in group.members for partition in member.assignment}
    console = Console()
    console.print(f"[bold]{group_id}[/bold]  {group.state}  epoch {group.group_epoch}  {len(group.members)} members")
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
    console.print(table)


@groups.command()
def delete(
    group_id: Annotated[str, typer.Argument(help="Id of the group.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Delete a group without members, and its offsets."""
    if not yes and not typer.confirm(f"Delete {group_id} and its offsets?"):
        raise typer.Abort
    with admin(bootstrap_servers, data_dir) as client:
        client.delete_consumer_groups([group_id])
    typer.echo(f"deleted {group_id}")
