"""`odradek produce` and `odradek consume`: records from standard input, to standard output, as kcat does it."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, Server, client_configs
from odradek.cli.queue import take_off
from odradek.cli.record_format import as_json, formatter, from_json, parse_header, parse_place, resolve
from odradek.errors import ErrorCode, KafkaError
from odradek.model.topic_partition import TopicPartition

Topic = Annotated[str, typer.Argument(help="Name of the topic.")]
_IN_FLIGHT = 10_000  # futures looked at together: an error shows early, memory stays small


def produce(
    topic: Topic,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-K", help="Splits a line into key and value.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="The key of every record.")] = None,
    header: Annotated[list[str] | None, typer.Option("--header", "-H", help="name=value; may be repeated.")] = None,
    from_json_lines: Annotated[
        bool,
        typer.Option(
            "--json", help="Each line is an object with key, value, headers, timestamp_ms: what consume --json prints."
        ),
    ] = False,
    partition: Annotated[int | None, typer.Option("--partition", "-p", help="Partition; else by key.")] = None,
    compression: Annotated[str, typer.Option("--compression", "-z", help="none, gzip, snappy, lz4 or zstd.")] = "none",
    empty_is_null: Annotated[bool, typer.Option("--null", "-Z", help="An empty value is null: a tombstone.")] = False,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Send each line of standard input as a record.

    Examples: [bold]echo 'k:v' | odradek produce orders -K :[/bold],
    [bold]odradek consume a --json | odradek produce b --json[/bold]
    """
    from odradek import Producer

    if from_json_lines and (key_separator or key is not None):
        raise KafkaError(ErrorCode.INVALID_CONFIG, "with --json the key is in the line: leave out -K and -k")
    separator = key_separator.encode() if key_separator else None
    headers = [parse_header(text) for text in header or ()]
    fixed_key = None if key is None else key.encode()
    configs = client_configs(bootstrap_servers, data_dir)
    futures: list[Any] = []
    count = 0
    with Producer(**configs, compression_type=compression, linger_ms=50) as producer:
        producer.partitions_for(topic)  # a topic that is not there is told before anything is typed
        for line in sys.stdin.buffer:
            timestamp_ms, own = None, headers
            if from_json_lines:
                given = from_json(line)
                record_key, value, timestamp_ms = given.key, given.value, given.timestamp_ms
                own = [*given.headers, *headers]
            else:
                record_key, value = _split(line.rstrip(b"\r\n"), separator, fixed_key)
                value = None if empty_is_null and not value else value
            futures.append(
                producer.send(topic, value, record_key, headers=own, partition=partition, timestamp_ms=timestamp_ms)
            )
            if len(futures) >= _IN_FLIGHT:
                count += _settle(producer, futures)
        count += _settle(producer, futures)
    typer.echo(f"sent {count} records to {topic}", err=True)


def _split(line: bytes, separator: bytes | None, fixed_key: bytes | None) -> tuple[bytes | None, bytes | None]:
    if separator is None:
        return fixed_key, line
    key, found, value = line.partition(separator)
    if not found:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"a line without the separator {separator.decode()!r}: {line[:60]!r}"
        )
    return key, value


def _settle(producer: Any, futures: list[Any]) -> int:
    producer.flush()
    for future in futures:
        future.result(60)
    count = len(futures)
    futures.clear()
    return count


def consume(
    topic: Topic,
    group: Annotated[
        str | None, typer.Option("--group", "-g", help="Consumer group; its offsets are committed.")
    ] = None,
    offset: Annotated[
        str,
        typer.Option("--offset", "-o", help="From: earliest, latest, an offset, -N before the end, or @TIME."),
    ] = "earliest",
    until: Annotated[
        str | None, typer.Option("--until", "-u", help="Up to but without: an offset, -N, or @TIME; else the end.")
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", "-p", help="This partition only.")] = None,
    count: Annotated[int, typer.Option("--count", "-n", min=0, help="Stop after so many records; 0: no bound.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for new records at the end.")] = False,
    as_json_lines: Annotated[
        bool, typer.Option("--json", help="One JSON object a record; bytes that are no UTF-8 in base64.")
    ] = False,
    form: Annotated[
        str | None,
        typer.Option(
            "--format", help="kcat's: %s value, %k key, %h headers, %t topic, %p partition, %o offset, %T ms."
        ),
    ] = None,
    share_group: Annotated[
        str | None, typer.Option("--share-group", "-G", help="Take records off as a member of this share group.")
    ] = None,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Print records, one a line, up to the end of the topic as it is now.

    Examples: [bold]odradek consume orders --json -n 10[/bold],
    [bold]odradek consume orders -o @2026-11-21T09:00:00 --format '%o %k=%s\\n'[/bold]
    """
    from odradek import Consumer

    if group is not None and partition is not None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "give --group or --partition: a group assigns partitions itself")
    if group is not None and (until is not None or offset not in ("earliest", "latest")):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            "a group goes on where it stands: --until and places other than earliest and latest need no --group "
            "(see `odradek groups reset-offsets`)",
        )
    if as_json_lines and form is not None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "give --json or --format, not both")
    show = as_json if as_json_lines else formatter(form) if form is not None else _value_line
    configs = client_configs(bootstrap_servers, data_dir)
    if share_group is not None:
        if group is not None or partition is not None or until is not None or offset != "earliest":
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                "a share group goes on where it stands: leave out --group, --partition, --offset and --until "
                "(see `odradek groups configure`)",
            )
        written = take_off(configs, topic, share_group, count, follow, show)
        typer.echo(f"{written} records", err=True)
        return
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
            for each, start in starts.items():
                consumer.seek(each, start)
        with _ctrl_c_once() as asked_to_stop:
            written = _print(consumer, ends, count, follow, show, group is not None, until is not None, asked_to_stop)
    typer.echo(f"{written} records", err=True)
    if asked_to_stop.is_set():
        raise typer.Exit(130)


def _chosen(partitions: list[TopicPartition], partition: int | None) -> list[TopicPartition]:
    chosen = [each for each in partitions if partition is None or each.partition == partition]
    if not chosen:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"the topic has partitions 0 to {len(partitions) - 1}, not {partition}",
        )
    return chosen


def offsets_at(consumer: Any, text: str, partitions: list[TopicPartition], option: str) -> dict[TopicPartition, int]:
    """The offset of a place in each partition. Raises KafkaError(INVALID_CONFIG) for what is no place."""
    place = parse_place(text, option)
    begins, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    at_time = {}
    if place.kind == "time":
        found = consumer.offsets_for_times(dict.fromkeys(partitions, place.number))
        at_time = {partition: at.offset for partition, at in found.items() if at is not None}
    return resolve(place, begins, ends, at_time)


@contextmanager
def _ctrl_c_once() -> Iterator[threading.Event]:
    """Within, the first Ctrl-C sets the event: what was polled is printed and committed. The second interrupts."""
    asked = threading.Event()

    def note(*_: Any) -> None:
        asked.set()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


def _print(
    consumer: Any,
    ends: dict[TopicPartition, int],
    count: int,
    follow: bool,
    show: Callable[[Any], bytes],
    in_group: bool,
    stops: bool,
    asked_to_stop: threading.Event,
) -> int:
    """Records to standard output; a group goes on behind the last one that was printed."""
    written = 0
    while True:
        polled = consumer.poll(0 if _at_end(consumer, ends, in_group) and not follow else 500)
        for place, records in polled.items():
            for record in records:
                if stops and record.offset >= ends[place]:
                    continue
                if count and written >= count:
                    consumer.seek(place, record.offset)  # polled, and not printed: closing must not commit it
                    break
                sys.stdout.buffer.write(show(record))
                written += 1
        sys.stdout.buffer.flush()
        is_done = not follow and _at_end(consumer, ends, in_group)
        if is_done or (count and written >= count) or asked_to_stop.is_set():
            return written


def _at_end(consumer: Any, ends: dict[TopicPartition, int], in_group: bool) -> bool:
    """Whether every partition that this consumer has stands at the end that the topic had at first."""
    assigned = consumer.assignment()
    if in_group and not assigned:
        return all(end == 0 for end in ends.values())
    return all(consumer.position(partition) >= ends[partition] for partition in assigned)


def _value_line(record: Any) -> bytes:
    return (record.value or b"") + b"\n"
