"""`odradek offsets`: where the partitions of a topic begin and end, or stand at a time."""

from __future__ import annotations

from typing import Annotated

import typer

from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, Server, admin
from odradek.cli.record_format import parse_time
from odradek.model.topic_partition import TopicPartition


def offsets(
    topic: Annotated[str, typer.Argument(help="Name of the topic.")],
    time: Annotated[
        str | None, typer.Option("--time", "-t", help="Also the first offset at or after: ms, or 2026-11-21T09:30:00.")
    ] = None,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Print partition, first offset, next offset and records of a topic, tab-separated."""
    moment_ms = None if time is None else parse_time(time, "--time")
    with admin(bootstrap_servers, data_dir) as client:
        partitions: tuple[TopicPartition, ...] = client.describe_topics([topic])[topic].partitions
        earliest = client.list_offsets(dict.fromkeys(partitions, "earliest"))
        latest = client.list_offsets(dict.fromkeys(partitions, "latest"))
        at = {} if moment_ms is None else client.list_offsets(dict.fromkeys(partitions, moment_ms))
    typer.echo("\t".join(["partition", "first", "next", "records", *(["at time"] if at else [])]))
    for each in partitions:
        first, following = earliest[each].offset, latest[each].offset
        row = [each.partition, first, following, following - first]
        if at:
            row.append(at[each].offset if at[each].offset >= 0 else following)
        typer.echo("\t".join(map(str, row)))
