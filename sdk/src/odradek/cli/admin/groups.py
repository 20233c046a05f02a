"""`odradek groups`: list, describe, delete, configure, export-offsets, reset-offsets; for groups of every kind."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from odradek.cli.admin.group_offsets import export_offsets, reset_offsets
from odradek.cli.command_group import CommandGroup
from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, GroupId, Server, admin
from odradek.cli.output import Output, OutputOption, show_data, show_rows
from odradek.cli.screen import confirm
from odradek.errors import ErrorCode, KafkaError

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
    with admin(bootstrap_servers, data_dir) as client:
        listings = client.list_consumer_groups()
    rows = [
        {"group": each.group_id, "state": each.state, "type": each.group_type}
        for each in sorted(listings, key=lambda each: each.group_id)
    ]
    show_rows(rows, ["group", "state", "type"], output)


@groups.command()
def describe(
    group_id: GroupId,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a group's members, committed offsets and lag."""
    with admin(bootstrap_servers, data_dir) as client:
        kinds = {listing.group_id: listing.group_type for listing in client.list_consumer_groups()}
        if kinds.get(group_id) == "share":
            _show_share(_described_share(client, group_id), output)
            return
        if kinds.get(group_id) == "streams":
            _show_streams(_described_streams(client, group_id), output)
            return
        group = client.describe_consumer_groups([group_id])[group_id]
        committed = client.list_consumer_group_offsets(group_id)
        latest = client.list_offsets(dict.fromkeys(committed, "latest"))
    owners = {partition: member for member in group.members for partition in member.assignment}
    partitions = []
    for partition in sorted({*committed, *owners}):
        offset = committed[partition].offset if partition in committed else None
        end = latest[partition].offset if partition in latest else None
        owner = owners.get(partition)
        partitions.append(
            {
                "partition": str(partition),
                "committed": offset,
                "next_offset": end,
                "lag": None if offset is None or end is None else end - offset,
                "client": owner.client_id if owner else None,
                "member": owner.member_id if owner else None,
            }
        )
    described = {
        "group": group_id,
        "state": group.state,
        "protocol": "classic" if group.group_epoch < 0 else "consumer",
        "epoch": None if group.group_epoch < 0 else group.group_epoch,
        "members": [_member(each) for each in group.members],
        "partitions": partitions,
    }
    if show_data(described, output):
        return
    protocol = "classic protocol" if group.group_epoch < 0 else f"epoch {group.group_epoch}"
    typer.echo(f"{group_id}  {group.state}  {protocol}  {len(group.members)} members")
    show_rows(partitions, ["partition", "committed", "next_offset", "lag", "client", "member"])


def _member(member: Any) -> dict[str, Any]:
    return {
        "member": member.member_id,
        "client": member.client_id,
        "topics": sorted(member.subscribed_topics),
    }


def _described_share(client: Any, group_id: str) -> dict[str, Any]:
    group = client.describe_share_groups([group_id])[group_id]
    offsets = client.list_share_group_offsets(group_id)
    configs = client.describe_group_configs(group_id)
    return {
        "group": group_id,
        "state": group.state,
        "protocol": "share",
        "epoch": group.group_epoch,
        "configs": {name: entry.value for name, entry in sorted(configs.items()) if not entry.is_default},
        "members": [_member(each) for each in group.members],
        "partitions": [
            {"partition": str(place), "start_offset": at.start_offset, "lag": None if at.lag < 0 else at.lag}
            for place, at in sorted(offsets.items())
        ],
    }


def _show_share(described: dict[str, Any], output: Output) -> None:
    if show_data(described, output):
        return
    members = described["members"]
    typer.echo(f"{described['group']}  share  {described['state']}  epoch {described['epoch']}  {len(members)} members")
    for name, value in described["configs"].items():
        typer.echo(f"{name} = {value}")
    show_rows(described["partitions"], ["partition", "start_offset", "lag"])
    if members:
        typer.echo("")
        show_rows(members, ["client", "topics", "member"])


def _described_streams(client: Any, group_id: str) -> dict[str, Any]:
    group = client.describe_streams_groups([group_id])[group_id]
    committed = client.list_consumer_group_offsets(group_id)
    latest = client.list_offsets(dict.fromkeys(committed, "latest"))
    subtopologies = group.topology.subtopologies if group.topology is not None else ()
    return {
        "group": group_id,
        "state": group.state,
        "protocol": "streams",
        "epoch": group.group_epoch,
        "subtopologies": [
            {
                "subtopology": each.subtopology_id,
                "sources": list(each.source_topics),
                "repartition_topics": [topic.name for topic in each.repartition_source_topics],
                "changelog_topics": [topic.name for topic in each.changelog_topics],
            }
            for each in subtopologies
        ],
        "members": [
            {
                "member": member.member_id,
                "client": member.client_id,
                "process": member.process_id,
                "active": _task_names(member.tasks.active),
                "standby": _task_names(member.tasks.standby),
            }
            for member in group.members
        ],
        "partitions": [
            {
                "partition": str(place),
                "committed": at.offset,
                "next_offset": latest[place].offset,
                "lag": latest[place].offset - at.offset,
            }
            for place, at in sorted(committed.items())
        ],
    }


def _task_names(tasks: Any) -> list[str]:
    """Tasks as Kafka Streams writes them: subtopology, underscore, partition."""
    return [f"{task.subtopology_id}_{task.partition}" for task in sorted(tasks)]


def _show_streams(described: dict[str, Any], output: Output) -> None:
    if show_data(described, output):
        return
    members = described["members"]
    typer.echo(
        f"{described['group']}  streams  {described['state']}  epoch {described['epoch']}  {len(members)} members"
    )
    show_rows(described["partitions"], ["partition", "committed", "next_offset", "lag"])
    if members:
        typer.echo("")
        show_rows(members, ["client", "active", "standby", "process", "member"])


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
    for (name, found, _), text in zip(pairs, values, strict=True):
        if not found or not name:
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
