"""`odradek offsets`: the first and next offset of each partition, and the offset at a time."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, Server, TopicName, admin
from odradek.cli.output import Output, OutputOption, show_rows
from odradek.model.topic_partition import TopicPartition
from odradek.operations.places import parse_time


def offsets(
    topic: TopicName,
    time: Annotated[
        str | None, typer.Option("--time", "-t", help="Also the first offset at or after: ms, or 2026-11-21T09:30:00.")
    ] = None,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """Print first offset, next offset and number of records of each partition of a topic."""
    moment_ms = None if time is None else parse_time(time, "--time")
    with admin(bootstrap_servers, data_dir) as client:
        partitions: tuple[TopicPartition, ...] = client.describe_topics([topic])[topic].partitions
        earliest = client.list_offsets(dict.fromkeys(partitions, "earliest"))
        latest = client.list_offsets(dict.fromkeys(partitions, "latest"))
        at = {} if moment_ms is None else client.list_offsets(dict.fromkeys(partitions, moment_ms))
    rows = []
    for partition in partitions:
        first, following = earliest[partition].offset, latest[partition].offset
        row: dict[str, Any] = {"partition": partition.partition, "first": first, "next": following}
        row["records"] = following - first
        if at:
            row["at_time"] = at[partition].offset if at[partition].offset >= 0 else following
        rows.append(row)
    columns = ["partition", "first", "next", "records", *(["at_time"] if at else [])]
    show_rows(rows, columns, output)
