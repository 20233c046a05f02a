"""`odradek topics`: create, alter, list, describe, delete, delete-records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from odradek.cli.command_group import CommandGroup
from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, Server, TopicName, admin
from odradek.cli.output import Output, OutputOption, show_data, show_rows
from odradek.cli.screen import confirm
from odradek.errors import ErrorCode, KafkaError
from odradek.model.topic_partition import TopicPartition

topics = typer.Typer(cls=CommandGroup, help="Create, alter, list, describe and delete topics.", no_args_is_help=True)

NewName = Annotated[str, typer.Argument(help="Name of the topic.")]
_TYPES = {1: "boolean", 2: "string", 3: "int", 4: "short", 5: "long", 6: "double", 7: "list"}  # Kafka's ConfigType


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

    With more partitions, the records of a key may go to another partition than before.

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
    """Show a topic's partitions with their offsets, and the configurations that are not defaults."""
    with admin(bootstrap_servers, data_dir) as client:
        topic = client.describe_topics([name])[name]
        earliest = client.list_offsets(dict.fromkeys(topic.partitions, "earliest"))
        latest = client.list_offsets(dict.fromkeys(topic.partitions, "latest"))
        found = client.describe_configs([name])[name]
    configs = [
        {
            "name": entry.name,
            "value": entry.value,
            "is_default": entry.is_default,
            "type": _TYPES.get(entry.config_type, "string"),
            "documentation": entry.documentation,
        }
        for entry in sorted(found.values(), key=lambda each: each.name)
        if defaults or not entry.is_default
    ]
    partitions = [
        {
            "partition": each.partition,
            "log_start_offset": earliest[each].offset,
            "next_offset": latest[each].offset,
            "records": latest[each].offset - earliest[each].offset,
        }
        for each in topic.partitions
    ]
    described = {"name": topic.name, "topic_id": str(topic.topic_id), "partitions": partitions, "configs": configs}
    if show_data(described, output):
        return
    typer.echo(f"{topic.name}  id {topic.topic_id}  {topic.partition_count} partitions")
    show_rows(partitions, ["partition", "log_start_offset", "next_offset", "records"])
    if defaults:
        typer.echo("")
        show_rows(configs, ["name", "value", "is_default", "documentation"])
        return
    for config in configs:
        typer.echo(f"{config['name']} = {config['value']}")


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
    with admin(bootstrap_servers, data_dir) as client:
        there = client.describe_topics([name])[name].partitions
        places = tuple(TopicPartition(name, number) for number in sorted(set(partition))) if partition else there
        refuse_deletion(name, len(there), places, before)
        begins, ends = offsets_of(client, places)
        refuse_deletion(name, len(there), places, before, ends)
        what = "all records" if before == -1 else f"the records below offset {before}"
        confirm(f"Delete {what} of {len(places)} partitions of {name}?", yes=yes)
        try:
            after = client.delete_records(dict.fromkeys(places, before))
        except KafkaError:
            _show_deleted(begins, offsets_of(client, places)[0], output)
            raise
    _show_deleted(begins, after, output)


def offsets_of(
    client: Any, places: Sequence[TopicPartition]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Return the first and the next offset of partitions."""
    begins, ends = (client.list_offsets(dict.fromkeys(places, where)) for where in ("earliest", "latest"))
    return {place: begins[place].offset for place in places}, {place: ends[place].offset for place in places}


def refuse_deletion(
    name: str,
    partition_count: int,
    places: Sequence[TopicPartition],
    before: int,
    ends: Mapping[TopicPartition, int] | None = None,
) -> None:
    """Refuse an offset that the service would refuse in any partition, so that all partitions change or none.

    Args:
        ends: next offset of each partition; None if not known yet.

    Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, OFFSET_OUT_OF_RANGE.
    """
    if unknown := [place.partition for place in places if not 0 <= place.partition < partition_count]:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"topic {name!r} has partitions 0 to {partition_count - 1}, not {unknown[0]}; nothing was deleted",
        )
    short = [f"{place} ends at offset {end}" for place, end in (ends or {}).items() if end < before]
    if before < -1 or short:
        why = ", ".join(short) or "an offset cannot be negative; -1 is the end"
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"--before {before}: {why}; nothing was deleted")


def _show_deleted(before: Mapping[TopicPartition, int], after: Mapping[TopicPartition, int], output: Output) -> None:
    rows = [
        {
            "partition": str(place),
            "log_start_offset": after[place],
            "deleted": max(after[place] - before[place], 0),
        }
        for place in sorted(after)
    ]
    show_rows(rows, ["partition", "deleted", "log_start_offset"], output)


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
