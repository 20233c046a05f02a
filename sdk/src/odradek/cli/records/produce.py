"""`odradek produce`: send each line of standard input as a record, like kcat.

A line that is not a valid record, or that the service refuses, ends the command. Earlier records are waited for, and
the error names the line, the number of records written, and the last line that was read. With --skip-errors such lines
are reported on standard error and the others are written; the exit code is still 1.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, BinaryIO

import typer

from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, Server, TopicName, client_configs
from odradek.cli.records.formats import KeyFormat, ValueFormat, writing
from odradek.cli.screen import progress
from odradek.errors import ErrorCode, KafkaError
from odradek.operations.records.lines import JsonRecord, from_json, parse_header

_IN_FLIGHT = 10_000  # futures checked together: errors show early, memory stays small
_LINGER_MS = 50
_REQUEST_TIMEOUT_MAX_MS = 30_000


def produce(
    topic: TopicName,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-K", help="Separates key and value in a line.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="The key of every record.")] = None,
    header: Annotated[list[str] | None, typer.Option("--header", "-H", help="name=value; may be repeated.")] = None,
    from_json_lines: Annotated[
        bool,
        typer.Option(
            "--json", help="Each line is an object with key, value, headers, timestamp_ms, as consume --json prints."
        ),
    ] = False,
    partition: Annotated[int | None, typer.Option("--partition", "-p", help="Partition. Default: by key.")] = None,
    compression: Annotated[str, typer.Option("--compression", "-z", help="none, gzip, snappy, lz4 or zstd.")] = "none",
    empty_is_null: Annotated[bool, typer.Option("--null", "-Z", help="An empty value is null: a tombstone.")] = False,
    key_format: KeyFormat = None,
    value_format: ValueFormat = None,
    skip_errors: Annotated[
        bool, typer.Option("--skip-errors", help="Report refused lines and continue; the exit code is 1 then.")
    ] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, help="Seconds to try to deliver a record (delivery.timeout.ms).")
    ] = 60,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Send each line of standard input as a record.

    The first refused line ends the command with an error that names it; with --skip-errors the command continues.

    Examples: [bold]echo 'k:v' | odradek produce orders -K :[/bold],
    [bold]odradek consume a --json | odradek produce b --json[/bold]
    """
    from odradek import Producer

    if from_json_lines and (key_separator or key is not None):
        raise KafkaError(ErrorCode.INVALID_CONFIG, "with --json the key is in the line: remove -K and -k")
    parse = _parser(
        from_json_lines=from_json_lines,
        separator=key_separator.encode() if key_separator else None,
        fixed_key=None if key is None else key.encode(),
        headers=[parse_header(text) for text in header or ()],
        empty_is_null=empty_is_null,
    )
    patience = {
        "delivery_timeout_ms": int(timeout * 1000) + _LINGER_MS,
        "request_timeout_ms": min(int(timeout * 1000), _REQUEST_TIMEOUT_MAX_MS),
    }
    configs = client_configs(bootstrap_servers, data_dir)
    parse = writing(parse, configs, topic, key_format, value_format)
    with Producer(**configs, **patience, compression_type=compression, linger_ms=_LINGER_MS) as producer:
        producer.partitions_for(topic)  # a missing topic is an error before anything is typed
        lines = Lines(producer, topic, partition, skip_errors=skip_errors)
        with _progress_of(sys.stdin.buffer) as advance:
            for line in sys.stdin.buffer:
                lines.send(line, parse)
                advance(len(line))
            lines.settle()
    typer.echo(f"sent {lines.written} records to {topic}", err=True)
    if lines.refused:
        typer.echo(f"refused {lines.refused} of {lines.number} lines", err=True)
        raise typer.Exit(1)


@dataclass(slots=True)
class Lines:
    """The lines of standard input on their way to a topic.

    Attributes:
        number: of the last line sent, from 1.
        written: records that were acknowledged.
        refused: lines that were not valid records, or that the service refused.
    """

    producer: Any
    topic: str
    partition: int | None
    skip_errors: bool
    number: int
    written: int
    refused: int
    _futures: list[tuple[int, Any]]

    def __init__(self, producer: Any, topic: str, partition: int | None, *, skip_errors: bool) -> None:
        self.producer, self.topic, self.partition, self.skip_errors = producer, topic, partition, skip_errors
        self.number = self.written = self.refused = 0
        self._futures = []

    def send(self, line: bytes, parse: Callable[[bytes], JsonRecord]) -> None:
        """Send a line. Raises KafkaError for the first failed line, after the lines before it have an outcome."""
        self.number += 1
        try:
            record = parse(line)
            future = self.producer.send(
                self.topic,
                record.value,
                record.key,
                headers=record.headers,
                partition=self.partition,
                timestamp_ms=record.timestamp_ms,
            )
        except KafkaError as error:
            self._failed(self.number, error)
            return
        self._futures.append((self.number, future))
        if len(self._futures) >= _IN_FLIGHT:
            self.settle()

    def settle(self) -> None:
        """Wait for the outcome of all lines sent. Raises KafkaError for the first failed line."""
        self._settle([])

    def _failed(self, number: int, error: KafkaError) -> None:
        if self.skip_errors:
            self._tell(number, error)
        else:
            self._settle([(number, error)])

    def _settle(self, failed: list[tuple[int, KafkaError]]) -> None:
        """Wait for the outcome of all lines sent; `failed` are later lines."""
        sent, self._futures = self._futures, []
        failed = [(number, error) for number, error in self._outcomes(sent) if error is not None] + failed
        self.written += len(sent) - sum(number <= sent[-1][0] for number, _ in failed) if sent else 0
        for number, error in failed:
            if not self.skip_errors:
                raise KafkaError(
                    error.code,
                    f"line {number}: {error.message}; {self.written} records were written, {len(failed)} refused, "
                    f"and nothing after line {self.number} was read: add --skip-errors to continue after errors",
                )
            self._tell(number, error)

    def _tell(self, number: int, error: KafkaError) -> None:
        self.refused += 1
        typer.echo(f"line {number}: {error}", err=True)

    def _outcomes(self, sent: list[tuple[int, Any]]) -> Iterator[tuple[int, KafkaError | None]]:
        try:
            self.producer.flush()
        except KafkaError:
            pass  # the error of each record is reported below
        for number, future in sent:
            yield number, future.exception()


def _parser(
    *,
    from_json_lines: bool,
    separator: bytes | None,
    fixed_key: bytes | None,
    headers: list[tuple[str, bytes | None]],
    empty_is_null: bool,
) -> Callable[[bytes], JsonRecord]:
    """Return a function from line to record, which raises KafkaError(INVALID_RECORD)."""

    def parse(line: bytes) -> JsonRecord:
        if from_json_lines:
            json_record = from_json(line)
            return JsonRecord(
                json_record.key, json_record.value, [*json_record.headers, *headers], json_record.timestamp_ms
            )
        key, value = _split(line.rstrip(b"\r\n"), separator, fixed_key)
        return JsonRecord(key, None if empty_is_null and not value else value, headers, None)

    return parse


def _split(line: bytes, separator: bytes | None, fixed_key: bytes | None) -> tuple[bytes | None, bytes | None]:
    if separator is None:
        return fixed_key, line
    key, mark, value = line.partition(separator)
    if not mark:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"the line has no separator {separator.decode()!r}: {line[:60]!r}")
    return key, value


def _progress_of(stream: BinaryIO) -> Any:
    """Show progress through a file that is standard input; nothing for a pipe, whose length is unknown."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, AttributeError, ValueError):
        return progress("sending", None, shown=False)
    return progress("sending", status.st_size, shown=stat.S_ISREG(status.st_mode), unit="bytes")
