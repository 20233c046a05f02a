"""`odradek search`: records that match, with the filters of the console; the latest record of a key."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, Server, TopicName, run
from odradek.cli.output import Output, OutputOption, show_rows
from odradek.cli.records.formats import KeyFormat, ValueFormat
from odradek.cli.screen import progress
from odradek.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from odradek.operations.cluster import Cluster
    from odradek.operations.records.filters import Filter
    from odradek.operations.records.formats import Decoder
    from odradek.operations.records.view import Formats, RecordView


def search(
    topic: TopicName,
    text: Annotated[str, typer.Option("--text", "-t", help="Occurs in the key or the value, in any case.")] = "",
    key: Annotated[str, typer.Option("--key", "-k", help="Occurs in the key.")] = "",
    header: Annotated[str, typer.Option("--header", help="A header: name, or name=part of its value.")] = "",
    where: Annotated[
        str, typer.Option("--where", "-w", help='An expression: value.country == "CH" and offset > 100')
    ] = "",
    latest_of: Annotated[
        str | None, typer.Option("--latest-of", help="Only the latest record with exactly this key.")
    ] = None,
    offset: Annotated[
        str, typer.Option("--offset", "-o", help="The oldest to look at: earliest, an offset, -N, or @TIME.")
    ] = "earliest",
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", help="Only this partition; may be repeated.")
    ] = None,
    oldest_first: Annotated[bool, typer.Option("--oldest-first", help="From the beginning on.")] = False,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Records at most; with --save a million.")] = 100,
    key_format: KeyFormat = None,
    value_format: ValueFormat = None,
    save: Annotated[
        Path | None, typer.Option("--save", help="Write them, oldest first, to a file: .csv, .json or .parquet.")
    ] = None,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """Print records that match, the newest first.

    Examples: [bold]odradek search orders -w 'value.customer.country == "CH"' -o @2026-11-21[/bold],
    [bold]odradek search accounts --latest-of account-3 --output json[/bold]
    """
    from odradek.operations.places import parse_place
    from odradek.operations.records.filters import Filter
    from odradek.operations.records.formats import FORMATS
    from odradek.operations.records.view import Formats

    for format_name in (key_format, value_format):
        if format_name is not None and format_name not in FORMATS:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"unknown format {format_name!r}: use {', '.join(FORMATS)}")
    formats = Formats(key_format or "auto", value_format or "auto")
    wanted = Filter(text, key, header, where)
    wanted.records()  # an invalid expression is told before anything is read
    position = parse_place(offset, "--offset")
    where_to_look = {"partitions": partition or [], "place": position, "formats": formats}

    async def within(cluster: Cluster) -> list[RecordView]:
        decoder = await _decoder(cluster)
        if latest_of is not None:
            return await _latest(cluster, topic, latest_of, decoder, formats)
        if save is not None:
            await _save(cluster, topic, wanted, save, where_to_look | {"decoder": decoder})
            return []
        return await _found(
            cluster, topic, wanted, where_to_look | {"decoder": decoder, "newest_first": not oldest_first}, count
        )

    records = run(bootstrap_servers, data_dir, within)
    if save is None:
        _show(records, output)


async def _decoder(cluster: Cluster) -> Decoder:
    from odradek.operations.records.formats import Decoder

    registry = await cluster.registry_or_none()
    return Decoder() if registry is None else Decoder(registry)


async def _latest(cluster: Cluster, topic: str, key: str, decoder: Decoder, formats: Formats) -> list[RecordView]:
    from odradek.operations.records.lookup import lookup

    record = await lookup(cluster, topic, key, decoder, formats)
    if record is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"no record of {topic} has the key {key!r}")
    return [record]


async def _found(cluster: Cluster, topic: str, wanted: Filter, options: dict[str, Any], count: int) -> list[RecordView]:
    from odradek.operations.records.search import Progress
    from odradek.operations.records.search import search as searching

    records: list[RecordView] = []
    total = 0
    with progress("searching", None) as advance:
        async with aclosing(searching(cluster, topic, wanted, limit=count, **options)) as parts:
            async for part in parts:
                if isinstance(part, Progress):
                    advance(part.scanned - total)
                    total = part.scanned
                else:
                    records += part
    typer.echo(f"{len(records)} found in {total} records", err=True)
    return records


async def _save(cluster: Cluster, topic: str, wanted: Filter, path: Path, options: dict[str, Any]) -> None:
    from odradek.operations.records.export import KINDS, export

    suffix = path.suffix.removeprefix(".")
    if suffix not in KINDS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"--save must end in {', '.join(f'.{known_suffix}' for known_suffix in KINDS)}"
        )
    try:
        with path.open("wb") as file:
            async with aclosing(export(cluster, topic, suffix, wanted, **options)) as chunks:
                async for chunk in chunks:
                    file.write(chunk)
    except OSError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"cannot write {path}: {error.strerror}") from None
    typer.echo(f"wrote {path}", err=True)


def _show(records: Sequence[RecordView], output: Output) -> None:
    from odradek.operations import plain

    if output is Output.TABLE:
        from odradek.operations.records.export import iso_time

        rows: list[dict[str, Any]] = [
            {
                "partition": record.partition,
                "offset": record.offset,
                "timestamp": iso_time(record.timestamp_ms),
                "key": None if record.key.is_null else record.key.text,
                "value": None if record.value.is_null else record.value.text,
            }
            for record in records
        ]
        show_rows(rows, ["partition", "offset", "timestamp", "key", "value"])
        return
    show_rows([plain(record) for record in records], [], output)
    sys.stdout.flush()
