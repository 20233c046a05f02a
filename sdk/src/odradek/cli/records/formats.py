"""Formats of keys and values on the command line: `--key-format` and `--value-format` of produce and consume."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from odradek.errors import ErrorCode, KafkaError
from odradek.operations.records.lines import JsonRecord

_KNOWN = "text, json, hex, base64, avro or protobuf (by the schema registry)"

KeyFormat = Annotated[str | None, typer.Option("--key-format", help=f"{_KNOWN}. Default: bytes as they are.")]
ValueFormat = Annotated[str | None, typer.Option("--value-format", help=f"{_KNOWN}. Default: bytes as they are.")]


def _registry(configs: dict[str, Any]) -> Any:
    from odradek.client.serializers.registry import HttpRegistry

    keys = {name: value for name, value in configs.items() if name.startswith("aws_")}
    return HttpRegistry.discover(str(configs["bootstrap_servers"]), **keys)


def reading(
    show: Callable[[Any], bytes], configs: dict[str, Any], key_format: str | None, value_format: str | None
) -> Callable[[Any], bytes]:
    """Return `show` for records whose keys and values are decoded first.

    Raises KafkaError: INVALID_CONFIG for an unknown format; INVALID_RECORD, when called, for a record that cannot be
    decoded.
    """
    if key_format is None and value_format is None:
        return show
    from odradek.operations.records.formats import FORMATS, Decoder

    for format_name in (key_format, value_format):
        if format_name is not None and format_name not in FORMATS:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"unknown format {format_name!r}: use {_KNOWN}, or auto")
    needs_registry = {key_format, value_format} & {"auto", "avro", "protobuf"}
    decoder = Decoder(_registry(configs) if needs_registry else None)

    def text(data: bytes | None, form: str | None, where: str) -> bytes | None:
        if data is None or form is None:
            return data
        decoded = decoder.decode(data, form)
        if decoded.problem:
            raise KafkaError(ErrorCode.INVALID_RECORD, f"{where}: {decoded.problem}")
        return decoded.text.encode()

    def show_decoded(record: Any) -> bytes:
        where = f"{record.topic}-{record.partition} at offset {record.offset}"
        key, value = text(record.key, key_format, where), text(record.value, value_format, where)
        return show(record._replace(key=key, value=value))

    return show_decoded


def writing(
    parse: Callable[[bytes], JsonRecord],
    configs: dict[str, Any],
    topic: str,
    key_format: str | None,
    value_format: str | None,
) -> Callable[[bytes], JsonRecord]:
    """Return `parse` for lines whose keys and values are encoded afterwards, by the subjects of the topic.

    Raises KafkaError: INVALID_CONFIG for an unknown format; INVALID_RECORD, when called, for what does not fit.
    """
    if key_format is None and value_format is None:
        return parse
    from odradek.operations.records.formats import encoder

    registry = _registry(configs) if {key_format, value_format} & {"avro", "protobuf"} else None
    encode_key = None if key_format is None else encoder(key_format, registry, f"{topic}-key")
    encode_value = None if value_format is None else encoder(value_format, registry, f"{topic}-value")

    def parse_and_encode(line: bytes) -> JsonRecord:
        record = parse(line)
        return JsonRecord(
            _encoded(record.key, encode_key), _encoded(record.value, encode_value), record.headers, record.timestamp_ms
        )

    return parse_and_encode


def _encoded(data: bytes | None, encode: Callable[[str], bytes] | None) -> bytes | None:
    if data is None or encode is None:
        return data
    try:
        return encode(data.decode())
    except UnicodeDecodeError as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"the text is not UTF-8: {error}") from error
