"""`odradek topics`: create, alter, list, describe, delete, delete-records."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, Server, admin
from odradek.cli.screen import confirm, show
from odradek.errors import ErrorCode, KafkaError

topics = typer.Typer(help="Create, alter, list, describe and delete topics.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of the topic.")]


def parse_configs(pairs: list[str]) -> dict[str, str]:
    """`name=value` pairs. Raises KafkaError(INVALID_CONFIG) for one without an equals sign."""
    configs = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"a configuration is name=value, not {pair!r}")
        configs[name.strip()] = value.strip()
    return configs


@topics.command()
def create(
    name: Name,
    partitions: Annotated[int, typer.Option("--partitions", "-p", help="How many; -1: the service's default.")] = -1,
    config: Annotated[list[str] | None, typer.Option("--config", "-c", help="name=value, may be repeated.")] = None,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Create a topic.

    Example: [bold]odradek topics create orders -p 6 -c cleanup.policy=compact[/bold]
    """
    from odradek import NewTopic

    configs = parse_configs(config or [])
    with admin(bootstrap_servers, data_dir) as client:
        client.create_topics([NewTopic(name, partitions, configs=configs)])
    typer.echo(f"created {name}")


@topics.command()
def alter(
    name: Name,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", help="How many there are to be: more than now.")
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", "-c", help="name=value, name= for the default again; may be repeated."),
    ] = None,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Change a topic's configuration, or give it more partitions.

    A key's records go to another partition once there are more partitions.

    Example: [bold]odradek topics alter orders -c retention.ms=86400000[/bold]
    """
    configs = parse_configs(config or [])
    if partitions is None and not configs:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "say what to change: --partitions or --config")
    with admin(bootstrap_servers, data_dir) as client:
        if configs:
            values = {key: value for key, value in configs.items() if value}
            client.alter_topic_configs(name, values, delete=configs.keys() - values.keys())
        if partitions is not None:
            client.create_partitions({name: partitions})
    typer.echo(f"altered {name}")


@topics.command("list")
def list_topics(bootstrap_servers: Server = DEFAULT_SERVER, data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """List the topics, one a line."""
    with admin(bootstrap_servers, data_dir) as client:
        for name in client.list_topics():
            typer.echo(name)


@topics.command()
def describe(name: Name, bootstrap_servers: Server = DEFAULT_SERVER, data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """Show a topic's partitions with their offsets, and the configurations that are not defaults."""
    with admin(bootstrap_servers, data_dir) as client:
        topic = client.describe_topics([name])[name]
        earliest = client.list_offsets(dict.fromkeys(topic.partitions, "earliest"))
        latest = client.list_offsets(dict.fromkeys(topic.partitions, "latest"))
        configs = client.describe_configs([name])[name]
    console = Console()
    console.print(f"[bold]{topic.name}[/bold]  id {topic.topic_id}  {topic.partition_count} partitions")
    table = Table("partition", "log start offset", "next offset", "records", box=None)
    for partition in topic.partitions:
        first, last = earliest[partition].offset, latest[partition].offset
        table.add_row(str(partition.partition), str(first), str(last), str(last - first))
    show(table)
    for entry in sorted(configs.values(), key=lambda each: each.name):
        if not entry.is_default:
            console.print(f"{entry.name} = {entry.value}")


@topics.command("delete-records")
def delete_records(
    name: Name,
    before: Annotated[int, typer.Option("--before", help="Offset of the first record to keep; -1: delete all.")],
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", help="Only this partition; may be repeated.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Delete the records below an offset: in all partitions, or in those named.

    Example: [bold]odradek topics delete-records orders --before 1000 -p 0[/bold]
    """
    from odradek.model.topic_partition import TopicPartition

    with admin(bootstrap_servers, data_dir) as client:
        places = client.describe_topics([name])[name].partitions
        if partition:
            places = tuple(TopicPartition(name, number) for number in partition)
        what = "all records" if before == -1 else f"the records below offset {before}"
        confirm(f"Delete {what} of {len(places)} partitions of {name}?", yes=yes)
        low_watermarks = client.delete_records(dict.fromkeys(places, before))
    for place in sorted(low_watermarks):
        typer.echo(f"{place}: begins at offset {low_watermarks[place]}")


@topics.command()
def delete(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Delete a topic and all its records."""
    confirm(f"Delete {name} and all its records?", yes=yes)
    with admin(bootstrap_servers, data_dir) as client:
        client.delete_topics([name])
    typer.echo(f"deleted {name}")
