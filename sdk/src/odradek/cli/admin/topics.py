"""`odradek topics`: create, alter, list, describe, delete, delete-records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from odradek.cli.command_group import CommandGroup
from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, Server, TopicName, admin, run
from odradek.cli.output import Output, OutputOption, show_data, show_rows
from odradek.cli.screen import confirm
from odradek.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from odradek.operations.cluster import Cluster

topics = typer.Typer(cls=CommandGroup, help="Create, alter, list, describe and delete topics.", no_args_is_help=True)

NewName = Annotated[str, typer.Argument(help="Name of the topic.")]


def parse_configs(pairs: list[str]) -> dict[str, str]:
    """Parse `name=value` pairs. Raises KafkaError(INVALID_CONFIG) for one without an equals sign."""
    configs = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"invalid configuration {pair!r}: use name=value")
        configs[name.strip()] = value.strip()
    return configs


@topics.command()
def create(
    name: NewName,
    partitions: Annotated[int, typer.Option("--partitions", "-p", help="Partitions; -1: the service's default.")] = -1,
    config: Annotated[list[str] | None, typer.Option("--config", "-c", help="name=value, may be repeated.")] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Leave a topic that exists as it is, and succeed.")
    ] = False,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Create a topic.

    Example: [bold]odradek topics create orders -p 6 -c cleanup.policy=compact[/bold]
    """
    from odradek.operations.topics import create_topic

    configs = parse_configs(config or [])
    is_new = run(
        bootstrap_servers,
        data_dir,
        lambda cluster: create_topic(cluster.admin, name, partitions, configs, if_not_exists=if_not_exists),
    )
    typer.echo(f"created {name}" if is_new else f"{name} exists")


@topics.command()
def alter(
    name: TopicName,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", help="New number of partitions, above the present one.")
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", "-c", help="name=value; name= resets to the default; may be repeated."),
    ] = None,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Change a topic's configuration, or add partitions.

    To a multiple of the present partitions, each key keeps its order: groups get a new partition when they have
    consumed the one whose keys it takes over. To another number, keys move to other partitions without order.

    Example: [bold]odradek topics alter orders -c retention.ms=86400000[/bold]
    """
    configs = parse_configs(config or [])
    if partitions is None and not configs:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "give --partitions or --config")
    with admin(bootstrap_servers, data_dir) as client:
        if configs:
            values = {key: value for key, value in configs.items() if value}
            client.alter_topic_configs(name, values, delete=configs.keys() - values.keys())
        if partitions is not None:
            client.create_partitions({name: partitions})
    typer.echo(f"altered {name}")


@topics.command("list")
def list_topics(
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the topics, one per line."""
    with admin(bootstrap_servers, data_dir) as client:
        names = client.list_topics()
    if not show_data(names, output):
        for name in names:
            typer.echo(name)


@topics.command()
def describe(
    name: TopicName,
    defaults: Annotated[
        bool, typer.Option("--defaults", help="Show all configurations with their meaning, not only those set.")
    ] = False,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a topic's partitions with leaders, offsets and sizes, and the configurations that are not defaults."""
    from odradek.operations import plain
    from odradek.operations.topics import describe_topic

    topic = run(bootstrap_servers, data_dir, lambda cluster: describe_topic(cluster.admin, name))
    described = plain(topic)
    described["configs"] = [config for config in described["configs"] if defaults or not config["is_default"]]
    if show_data(described, output):
        return
    typer.echo(f"{topic.name}  id {topic.topic_id}  {len(topic.partitions)} partitions")
    columns = ["partition", "leader", "log_start_offset", "next_offset", "records", "size_bytes"]
    show_rows(described["partitions"], columns)
    if defaults:
        typer.echo("")
        show_rows(described["configs"], ["name", "value", "is_default", "documentation"])
        return
    for config in described["configs"]:
        typer.echo(f"{config['name']} = {config['value']}")


@topics.command()
def segments(
    name: TopicName,
    partition: Annotated[int, typer.Option("--partition", "-p", min=0, help="Of this partition.")] = 0,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show how a partition is stored: segments, spilled uploads, tail. Reads the store itself, not the service.

    Example: [bold]odradek topics segments orders -p 2[/bold]
    """
    from odradek.operations import plain
    from odradek.operations.storage import SegmentMap

    async def read(cluster: Cluster) -> SegmentMap:
        async with cluster.open_store() as store:
            return await store.segments(name, partition)

    stored = run(bootstrap_servers, data_dir, read)
    if show_data(plain(stored), output):
        return
    typer.echo(
        f"{name}-{partition}  offsets {stored.log_start_offset} to {stored.next_offset}  {stored.size_bytes} bytes"
    )
    columns = ["kind", "base_offset", "end_offset", "size_bytes", "uploads", "max_timestamp_ms"]
    show_rows(plain(stored.pieces), columns)


@topics.command()
def consumers(
    name: TopicName,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the groups that have committed offsets in a topic or are assigned its partitions, with their lag."""
    from odradek.operations import plain
    from odradek.operations.topics import TopicConsumer, consumers_of, offsets_of

    async def read(cluster: Cluster) -> list[TopicConsumer]:
        places = (await cluster.admin.describe_topics([name]))[name].partitions
        _, ends = await offsets_of(cluster.admin, places)
        return await consumers_of(cluster.admin, name, ends)

    rows = [plain(consumer) for consumer in run(bootstrap_servers, data_dir, read)]
    show_rows(rows, ["group", "type", "state", "members", "lag"], output)


@topics.command()
def skew(
    name: TopicName,
    sample: Annotated[int, typer.Option("--sample", min=1, help="Newest records of each partition to read.")] = 1_000,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show how keys spread over the partitions of a topic, from a sample of its newest records.

    Example: [bold]odradek topics skew orders[/bold]
    """
    from odradek.operations import plain
    from odradek.operations.skew import key_skew

    distribution = run(bootstrap_servers, data_dir, lambda cluster: key_skew(cluster, name, sample))
    data = plain(distribution)
    if show_data(data, output):
        return
    typer.echo(
        f"{distribution.keys} keys in {distribution.sampled} records; "
        f"largest partition: {distribution.imbalance:.2f} times the mean"
    )
    show_rows(data["partitions"], ["partition", "records", "sampled", "keys", "without_key", "heaviest"])
    typer.echo("")
    show_rows([row | {"share": round(row["share"], 3)} for row in data["top"]],
              ["key", "records", "share", "partitions"])  # fmt: skip


@topics.command("delete-records")
def delete_records(
    name: TopicName,
    before: Annotated[int, typer.Option("--before", help="Offset of the first record to keep; -1 deletes all.")],
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", help="Only this partition; may be repeated.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """Delete the records below an offset, in all partitions or in those given.

    All partitions are checked before anything is deleted; the result shows the outcome for each.

    Example: [bold]odradek topics delete-records orders --before 1000 -p 0[/bold]
    """
    run(
        bootstrap_servers,
        data_dir,
        lambda cluster: _delete_records(cluster, name, before, partition or [], yes, output),
    )


async def _delete_records(
    cluster: Cluster, name: str, before: int, partitions: list[int], yes: bool, output: Output
) -> None:
    from odradek.operations import plain
    from odradek.operations.topics import delete_records, deleted_so_far, plan_deletion

    plan = await plan_deletion(cluster.admin, name, partitions, before)
    target = "all records" if before == -1 else f"the records below offset {before}"
    confirm(f"Delete {target} of {len(plan.places)} partitions of {name}?", yes=yes)
    columns = ["partition", "deleted", "log_start_offset"]
    try:
        deleted = await delete_records(cluster.admin, plan)
    except KafkaError:
        show_rows(plain(await deleted_so_far(cluster.admin, plan)), columns, output)
        raise
    show_rows(plain(deleted), columns, output)


@topics.command()
def delete(
    name: TopicName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Delete a topic and all its records."""
    confirm(f"Delete {name} and all its records?", yes=yes)
    with admin(bootstrap_servers, data_dir) as client:
        client.delete_topics([name])
    typer.echo(f"deleted {name}")
