"""`odradek consume`: print records to standard output, one per line, like kcat."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from odradek.cli.completion import group_names
from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, Server, TopicName, client_configs
from odradek.cli.output import write_data
from odradek.cli.record_format import formatter
from odradek.cli.records.formats import KeyFormat, ValueFormat, reading
from odradek.cli.records.queue import take_off
from odradek.cli.screen import Advance, progress
from odradek.errors import ErrorCode, KafkaError
from odradek.model.topic_partition import TopicPartition
from odradek.operations.places import parse_place, resolve
from odradek.operations.records.lines import as_json

_WAIT_FOR_TOPIC_S = 1.0


def consume(
    topic: TopicName,
    group: Annotated[
        str | None,
        typer.Option("--group", "-g", help="Consumer group; its offsets are committed.", autocompletion=group_names),
    ] = None,
    offset: Annotated[
        str,
        typer.Option("--offset", "-o", help="Start: earliest, latest, an offset, -N before the end, or @TIME."),
    ] = "earliest",
    until: Annotated[
        str | None, typer.Option("--until", "-u", help="Stop before: an offset, -N, or @TIME. Default: the end.")
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", "-p", help="Only this partition.")] = None,
    count: Annotated[int, typer.Option("--count", "-n", min=0, help="Stop after so many records; 0: no limit.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for new records at the end.")] = False,
    as_json_lines: Annotated[
        bool, typer.Option("--json", help="One JSON object per record; bytes that are not UTF-8 are in base64.")
    ] = False,
    form: Annotated[
        str | None,
        typer.Option(
            "--format", help="kcat's: %s value, %k key, %h headers, %t topic, %p partition, %o offset, %T ms."
        ),
    ] = None,
    share_group: Annotated[
        str | None,
        typer.Option(
            "--share-group",
            "-G",
            help="Consume the topic as a queue, as a member of this share group.",
            autocompletion=group_names,
        ),
    ] = None,
    key_format: KeyFormat = None,
    value_format: ValueFormat = None,
    wait_for_topic: Annotated[
        bool, typer.Option("--wait-for-topic", help="Wait for a topic that does not exist yet.")
    ] = False,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Print records, one per line, up to the present end of the topic.

    Examples: [bold]odradek consume orders --json -n 10[/bold],
    [bold]odradek consume orders -o @2026-11-21T09:00:00 --format '%o %k=%s\\n'[/bold]
    """
    if group is not None and partition is not None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "give --group or --partition, not both: a group assigns partitions")
    if group is not None and (until is not None or offset not in ("earliest", "latest")):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            "a group continues at its committed offsets: --until and an --offset other than earliest and latest cannot "
            "be used with --group (see `odradek groups reset-offsets`)",
        )
    if as_json_lines and form is not None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "give --json or --format, not both")
    show = as_json if as_json_lines else formatter(form) if form is not None else _value_line
    configs = client_configs(bootstrap_servers, data_dir)
    show = reading(show, configs, key_format, value_format)
    if share_group is not None:
        if group is not None or partition is not None or until is not None or offset != "earliest":
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                "a share group continues at its position: leave out --group, --partition, --offset and --until "
                "(see `odradek groups configure`)",
            )
        _find_topic(configs, topic, wait=wait_for_topic)
        written = take_off(configs, topic, share_group, count, follow, show)
        typer.echo(f"{written} records", err=True)
        return
    from odradek import Consumer

    if wait_for_topic:
        _find_topic(configs, topic, wait=True)
    reset = offset if offset in ("earliest", "latest") else "earliest"
    with Consumer(**configs, group_id=group, auto_offset_reset=reset) as consumer:
        partitions = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for(topic))]
        if group is None:
            partitions = _chosen(partitions, partition)
        ends = offsets_at(consumer, "latest", partitions, "--until")
        if until is not None:
            ends, follow = offsets_at(consumer, until, partitions, "--until"), False
        if group is not None:
            consumer.subscribe([topic])
        else:
            starts = offsets_at(consumer, offset, partitions, "--offset")
            consumer.assign(partitions)
            for tp, start in starts.items():
                consumer.seek(tp, start)
        left = sum(max(ends[tp] - consumer.position(tp), 0) for tp in ends) if group is None else None
        hidden = sys.stdout.isatty() or follow
        with (
            _stopped_once() as asked_to_stop,
            progress("reading", min(left or 0, count or sys.maxsize) or None, shown=not hidden) as advance,
        ):
            written = _print(
                consumer, ends, count, follow, show, group is not None, until is not None, asked_to_stop, advance
            )
    typer.echo(f"{written} records", err=True)
    if asked_to_stop:
        raise typer.Exit(128 + asked_to_stop[0])


def _find_topic(configs: dict[str, Any], topic: str, *, wait: bool) -> None:
    """Return when the topic exists: the first member creates a share group, which a misspelt topic must not do.

    Raises KafkaError(UNKNOWN_TOPIC_OR_PARTITION) unless `wait`.
    """
    from odradek import Admin

    with Admin(**configs) as client:
        while True:
            try:
                client.describe_topics([topic])
                return
            except KafkaError as error:
                if not wait or error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
            time.sleep(_WAIT_FOR_TOPIC_S)


def _chosen(partitions: list[TopicPartition], partition: int | None) -> list[TopicPartition]:
    chosen = [tp for tp in partitions if partition is None or tp.partition == partition]
    if not chosen:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"the topic has partitions 0 to {len(partitions) - 1}, not {partition}",
        )
    return chosen


def offsets_at(consumer: Any, text: str, partitions: list[TopicPartition], option: str) -> dict[TopicPartition, int]:
    """Return the offset of a place in each partition. Raises KafkaError(INVALID_CONFIG) for an invalid place."""
    position = parse_place(text, option)
    begins, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    at_time = {}
    if position.kind == "time":
        offsets_for_time = consumer.offsets_for_times(dict.fromkeys(partitions, position.number))
        at_time = {partition: at.offset for partition, at in offsets_for_time.items() if at is not None}
    return resolve(position, begins, ends, at_time)


@contextmanager
def _stopped_once() -> Iterator[list[int]]:
    """Add the first Ctrl-C or SIGTERM to the list, so that polled records are printed and committed, and the group is
    left. The second one ends the command at once.
    """
    signals: list[int] = []
    before: dict[int, Any] = {}

    def note(number: int, _: Any) -> None:
        signals.append(number)
        for number, handler in before.items():
            signal.signal(number, handler)

    for stop in (signal.SIGINT, signal.SIGTERM):
        before[int(stop)] = signal.signal(stop, note)
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print(
    consumer: Any,
    ends: dict[TopicPartition, int],
    count: int,
    follow: bool,
    show: Callable[[Any], bytes],
    in_group: bool,
    stops: bool,
    asked_to_stop: list[int],
    advance: Advance,
) -> int:
    """Print records to standard output and return their number; a group continues after the last printed one."""
    written = 0
    while True:
        polled = consumer.poll(0 if _at_end(consumer, ends, in_group) and not follow else 500)
        before = written
        for tp, records in polled.items():
            for record in records:
                if stops and record.offset >= ends[tp]:
                    continue
                if count and written >= count:
                    consumer.seek(tp, record.offset)  # polled, and not printed: closing must not commit it
                    break
                write_data(show(record))
                written += 1
        sys.stdout.buffer.flush()
        advance(written - before)
        is_done = not follow and _at_end(consumer, ends, in_group)
        if is_done or (count and written >= count) or asked_to_stop:
            return written


def _at_end(consumer: Any, ends: dict[TopicPartition, int], in_group: bool) -> bool:
    """Return True if this consumer's partitions are at the ends that the topic had at the start of the command."""
    assigned = consumer.assignment()
    if in_group and not assigned:
        return all(end == 0 for end in ends.values())
    return all(consumer.position(partition) >= ends[partition] for partition in assigned)


def _value_line(record: Any) -> bytes:
    return (record.value or b"") + b"\n"
