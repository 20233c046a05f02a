"""`odradek groups reset-offsets` and `export-offsets`: change or print the offsets of a group without members.

A reset computes the new offsets from the log and the group, shows them, and commits them in one call. `--file` reads
the output of an export: lines of topic,partition,offset. For a share group, the offset is its start offset; records
below it that were delivered and not acknowledged are skipped.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, GroupId, Server, run
from odradek.cli.output import Output, OutputOption, show_rows
from odradek.errors import ErrorCode, KafkaError
from odradek.model.topic_partition import TopicPartition
from odradek.operations.places import parse_place

if TYPE_CHECKING:
    from odradek.operations.cluster import Cluster


def export_offsets(
    group_id: GroupId, bootstrap_servers: Server = DEFAULT_SERVER, data_dir: DataDir = DEFAULT_DATA_DIR
) -> None:
    """Print the committed offsets as topic,partition,offset, for reset-offsets --file."""
    committed = run(bootstrap_servers, data_dir, lambda cluster: _exported(cluster, group_id))
    for partition in sorted(committed):
        typer.echo(f"{partition.topic},{partition.partition},{committed[partition]}")


async def _exported(cluster: Cluster, group_id: str) -> dict[TopicPartition, int]:
    from odradek.operations.groups import is_share_group
    from odradek.operations.resets import committed_offsets

    is_share = await is_share_group(cluster.admin, group_id)
    committed = await committed_offsets(cluster.admin, group_id, is_share=is_share)
    if not committed:
        await cluster.admin.describe_consumer_groups([group_id])  # an empty file is for a group that is there
    return committed


def reset_offsets(
    group_id: GroupId,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", help="topic or topic:0,2; may be repeated. Default: all committed partitions."),
    ] = None,
    to: Annotated[str | None, typer.Option("--to", help="earliest, latest, an offset, -N, or @TIME.")] = None,
    shift: Annotated[
        int | None, typer.Option("--shift", help="Move by this many records; negative moves back.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", help="Lines of topic,partition,offset; - is standard input.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the new offsets and commit nothing.")] = False,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """Change the offsets of a group that has no members: a consumer, classic or share group.

    Examples: [bold]odradek groups reset-offsets billing -t orders --to @2026-11-21T00:00:00 --dry-run[/bold],
    [bold]odradek groups reset-offsets billing --shift -100[/bold]
    """
    if sum(choice is not None for choice in (to, shift, file)) != 1:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "give exactly one of --to, --shift and --file")
    target = None if to is None else parse_place(to, "--to")
    offsets_by_partition = None if file is None else _read(file)

    async def reset(cluster: Cluster) -> list[dict[str, Any]]:
        from odradek.operations import plain
        from odradek.operations.resets import apply_reset, plan_reset

        plan = await plan_reset(
            cluster.admin, group_id, topics=topic or [], place=target, shift=shift, given=offsets_by_partition
        )
        if not dry_run:
            await apply_reset(cluster.admin, plan)
        rows: list[dict[str, Any]] = plain(plan.rows)
        return rows

    show_rows(run(bootstrap_servers, data_dir, reset), ["partition", "committed", "new"], output)
    if dry_run:
        typer.echo("nothing was committed", err=True)


def _read(file: Path) -> dict[TopicPartition, int]:
    offsets_by_partition = {}
    # Bytes that are not text turn into a line that does not parse.
    with sys.stdin if str(file) == "-" else file.open(newline="", encoding="utf-8", errors="replace") as lines:
        for number, row in enumerate(csv.reader(lines), 1):
            if not row:
                continue
            try:
                topic, partition, offset = row
                offsets_by_partition[TopicPartition(topic, int(partition))] = int(offset)
            except ValueError as error:
                raise KafkaError(
                    ErrorCode.INVALID_CONFIG,
                    f"{file}, line {number}: use topic,partition,offset, not {','.join(row)!r}",
                ) from error
    if not offsets_by_partition:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{file} has no lines of the form topic,partition,offset")
    return offsets_by_partition
