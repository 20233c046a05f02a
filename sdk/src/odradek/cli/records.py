"""`odradek produce` and `odradek consume`: records from standard input and to standard output."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, Server, client_configs
from odradek.errors import ErrorCode, KafkaError
from odradek.model.topic_partition import TopicPartition

Topic = Annotated[str, typer.Argument(help="Name of the topic.")]
_IN_FLIGHT = 10_000  # futures looked at together: an error shows early, memory stays small


def produce(
    topic: Topic,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-K", help="Splits a line into key and value.")
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", "-p", help="Partition; else by key.")] = None,
    compression: Annotated[str, typer.Option("--compression", "-z", help="none, gzip, snappy, lz4 or zstd.")] = "none",
    empty_is_null: Annotated[bool, typer.Option("--null", "-Z", help="An empty value is null: a tombstone.")] = False,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Send each line of standard input as a record.

    Example: [bold]echo 'k:v' | odradek produce orders -K :[/bold]
    """
    from odradek import Producer

    separator = key_separator.encode() if key_separator else None
    configs = client_configs(bootstrap_servers, data_dir)
    futures: list[Any] = []
    count = 0
    with Producer(**configs, compression_type=compression, linger_ms=50) as producer:
        for line in sys.stdin.buffer:
            key, value = _split(line.rstrip(b"\r\n"), separator)
            futures.append(
                producer.send(topic, None if empty_is_null and not value else value, key, partition=partition)
            )
            if len(futures) >= _IN_FLIGHT:
                count += _settle(producer, futures)
        count += _settle(producer, futures)
    typer.echo(f"sent {count} records to {topic}", err=True)


def _split(line: bytes, separator: bytes | None) -> tuple[bytes | None, bytes]:
    if separator is None:
        return None, line
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
        str, typer.Option("--offset", "-o", help="earliest, latest or a number (without group).")
    ] = "earliest",
    partition: Annotated[int | None, typer.Option("--partition", "-p", help="This partition only.")] = None,
    count: Annotated[int, typer.Option("--count", "-n", help="Stop after so many records; 0: no bound.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for new records at the end.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a record, with key, offset and time.")
    ] = False,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Print records, one a line, up to the end of the topic as it is now.

    Example: [bold]odradek consume orders --json -n 10[/bold]
    """
    from odradek import Consumer

    if group is not None and partition is not None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "give --group or --partition: a group assigns partitions itself")
    configs = client_configs(bootstrap_servers, data_dir)
    reset = offset if offset in ("earliest", "latest") else "earliest"
    with Consumer(**configs, group_id=group, auto_offset_reset=reset) as consumer:
        partitions = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for(topic))]
        ends = consumer.end_offsets(partitions)
        if group is not None:
            consumer.subscribe([topic])
        else:
            _assign(consumer, partitions, partition, offset)
        written = _print(consumer, ends, count, follow, as_json, group is not None)
    typer.echo(f"{written} records", err=True)


def _assign(consumer: Any, partitions: list[TopicPartition], partition: int | None, offset: str) -> None:
    chosen = [each for each in partitions if partition is None or each.partition == partition]
    if not chosen:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"the topic has partitions 0 to {len(partitions) - 1}, not {partition}",
        )
    consumer.assign(chosen)
    if offset == "latest":
        consumer.seek_to_end(*chosen)
    elif offset == "earliest":
        consumer.seek_to_beginning(*chosen)
    elif offset.isdigit():
        for each in chosen:
            consumer.seek(each, int(offset))
    else:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"--offset is earliest, latest or a number, not {offset!r}")


def _print(
    consumer: Any, ends: dict[TopicPartition, int], count: int, follow: bool, as_json: bool, in_group: bool
) -> int:
    written = 0
    while True:
        for records in consumer.poll(500).values():
            for record in records:
                sys.stdout.buffer.write(_line(record, as_json))
                written += 1
                if count and written >= count:
                    sys.stdout.buffer.flush()
                    return written
        sys.stdout.buffer.flush()
        if not follow and _at_end(consumer, ends, in_group):
            return written


def _at_end(consumer: Any, ends: dict[TopicPartition, int], in_group: bool) -> bool:
    """Whether every partition that this consumer has stands at the end that the topic had at first."""
    assigned = consumer.assignment()
    if in_group and not assigned:
        return all(end == 0 for end in ends.values())
    return all(consumer.position(partition) >= ends[partition] for partition in assigned)


def _line(record: Any, as_json: bool) -> bytes:
    if not as_json:
        return (record.value or b"") + b"\n"
    shown = {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": _text(record.key),
        "value": _text(record.value),
    }
    if record.headers:
        shown["headers"] = [[name, _text(value)] for name, value in record.headers]
    return json.dumps(shown, ensure_ascii=False).encode() + b"\n"


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", errors="backslashreplace")
