"""`odradek groups reset-offsets` and `export-offsets`: change or print the offsets of a group without members.

A reset computes the new offsets from the log and the group, shows them, and commits them in one call. `--file` reads
the output of an export: lines of topic,partition,offset. For a share group, the offset is its start offset; records
below it that were delivered and not acknowledged are skipped.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, GroupId, Server, admin
from odradek.cli.output import Output, OutputOption, show_rows
from odradek.cli.record_format import Place, parse_place, resolve
from odradek.errors import ErrorCode, KafkaError
from odradek.model.topic_partition import TopicPartition


def export_offsets(
    group_id: GroupId, bootstrap_servers: Server = DEFAULT_SERVER, data_dir: DataDir = DEFAULT_DATA_DIR
) -> None:
    """Print the committed offsets as topic,partition,offset, for reset-offsets --file."""
    with admin(bootstrap_servers, data_dir) as client:
        committed = _committed(client, group_id, is_share=_is_share(client, group_id))
        if not committed:
            client.describe_consumer_groups([group_id])  # an empty file is for a group that is there
    for partition in sorted(committed):
        typer.echo(f"{partition.topic},{partition.partition},{committed[partition]}")


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
    place = None if to is None else parse_place(to, "--to")
    given = None if file is None else _read(file)
    with admin(bootstrap_servers, data_dir) as client:
        is_share = _is_share(client, group_id)
        committed = _committed(client, group_id, is_share=is_share)
        partitions = sorted(given) if given is not None else _partitions(client, topic or [], committed)
        if not partitions:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"group {group_id} has no committed offsets: give --topic")
        begins = _offsets(client, partitions, "earliest")
        ends = _offsets(client, partitions, "latest")
        target = new_offsets(place, shift, given, committed, begins, ends, _at_time(client, place, partitions))
        if not dry_run:
            _refuse_members(client, group_id)
            if is_share:
                client.alter_share_group_offsets(group_id, target)
            else:
                client.alter_consumer_group_offsets(group_id, target)
    rows = [{"partition": str(each), "committed": committed.get(each), "new": target[each]} for each in partitions]
    show_rows(rows, ["partition", "committed", "new"], output)
    if dry_run:
        typer.echo("nothing was committed", err=True)


def new_offsets(
    place: Place | None,
    shift: int | None,
    given: dict[TopicPartition, int] | None,
    committed: dict[TopicPartition, int],
    begins: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
    at_time: dict[TopicPartition, int | None],
) -> dict[TopicPartition, int]:
    """Return the new offset of each partition, within its log; --shift counts from the start if none is committed."""
    if place is not None:
        return resolve(place, begins, ends, at_time)
    if given is not None:
        wanted = given
    else:
        wanted = {each: committed.get(each, begins[each]) + (shift or 0) for each in ends}
    return {each: max(begins[each], min(offset, ends[each])) for each, offset in wanted.items()}


def _at_time(client: Any, place: Place | None, partitions: list[TopicPartition]) -> dict[TopicPartition, int | None]:
    if place is None or place.kind != "time":
        return {}
    found = client.list_offsets(dict.fromkeys(partitions, place.number))
    return {each: at.offset if at.offset >= 0 else None for each, at in found.items()}


def _offsets(client: Any, partitions: list[TopicPartition], where: str) -> dict[TopicPartition, int]:
    return {each: at.offset for each, at in client.list_offsets(dict.fromkeys(partitions, where)).items()}


def _partitions(client: Any, topics: list[str], committed: dict[TopicPartition, int]) -> list[TopicPartition]:
    if not topics:
        return sorted(committed)
    found: set[TopicPartition] = set()
    for text in topics:
        name, _, numbers = text.partition(":")
        there = set(client.describe_topics([name])[name].partitions)
        try:
            asked = {TopicPartition(name, int(number)) for number in numbers.split(",")} if numbers else there
        except ValueError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"--topic must be name or name:0,2, not {text!r}") from error
        if not asked <= there:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} has partitions 0 to {len(there) - 1}"
            )
        found |= asked
    return sorted(found)


def _group_type(client: Any, group_id: str) -> str:
    types: dict[str, str] = {each.group_id: each.group_type for each in client.list_consumer_groups()}
    return types.get(group_id, "consumer")


def _is_share(client: Any, group_id: str) -> bool:
    return _group_type(client, group_id) == "share"


def _committed(client: Any, group_id: str, *, is_share: bool) -> dict[TopicPartition, int]:
    """Return the committed offsets of a group, or the start offsets of a share group."""
    if is_share:
        found = client.list_share_group_offsets(group_id)
        return {each: at.start_offset for each, at in found.items() if at.start_offset >= 0}
    return {each: at.offset for each, at in client.list_consumer_group_offsets(group_id).items()}


def _refuse_members(client: Any, group_id: str) -> None:
    describes = {"share": client.describe_share_groups, "streams": client.describe_streams_groups}
    describe = describes.get(_group_type(client, group_id), client.describe_consumer_groups)
    try:
        group = describe([group_id])[group_id]
    except KafkaError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:  # the reset creates it
            return
        raise
    if group.members:
        raise KafkaError(
            ErrorCode.NON_EMPTY_GROUP, f"group {group_id} has {len(group.members)} members: stop them first"
        )


def _read(file: Path) -> dict[TopicPartition, int]:
    found = {}
    # Bytes that are not text turn into a line that does not parse.
    with sys.stdin if str(file) == "-" else file.open(newline="", encoding="utf-8", errors="replace") as lines:
        for number, row in enumerate(csv.reader(lines), 1):
            if not row:
                continue
            try:
                topic, partition, offset = row
                found[TopicPartition(topic, int(partition))] = int(offset)
            except ValueError as error:
                raise KafkaError(
                    ErrorCode.INVALID_CONFIG,
                    f"{file}, line {number}: use topic,partition,offset, not {','.join(row)!r}",
                ) from error
    if not found:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{file} has no lines of the form topic,partition,offset")
    return found
