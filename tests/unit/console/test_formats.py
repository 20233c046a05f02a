"""Formats of keys and values: guesses, forced formats, the way back, and bytes of every kind."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.client.serializers import AvroSerializer, MemoryRegistry
from odradek.client.serializers.registry import Schema
from odradek.errors import ErrorCode, KafkaError
from odradek.operations.records.formats import FORMATS, Decoder, encode, hex_dump

RECORD = json.dumps(
    {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "bytes"}]}
)

GUESSES = [
    (None, "null", ""),
    (b"", "text", ""),
    (b"plain", "text", "plain"),
    ("Zoë\n".encode(), "text", "Zoë\n"),
    (b'{"a": 1}', "json", '{"a": 1}'),
    (b"[1,2]", "json", "[1, 2]"),
    (b'\r\n\t {"a": 1}\n', "json", '{"a": 1}'),
    (b" \n", "text", " \n"),
    (b"{not json", "text", "{not json"),
    (b"[" * 5000, "text", "[" * 5000),
    (b"\x00\x01\x02", "hex", "000102"),
    (b"\xff\xfe", "hex", "fffe"),
    (b"\x00\x00\x00\x00\x09payload", "hex", "0000000009" + b"payload".hex()),
    (b"NaN", "text", "NaN"),
]


@pytest.mark.parametrize(("data", "form", "text"), GUESSES, ids=lambda value: str(value)[:20])
def test_a_guess(data: bytes | None, form: str, text: str) -> None:
    found = Decoder(MemoryRegistry()).decode(data)
    assert (found.form, found.text) == (form, text)
    assert found.size_bytes == len(data or b"")


def test_avro_is_recognized_by_its_schema_and_written_by_the_latest_one() -> None:
    registry = MemoryRegistry()
    data = AvroSerializer(registry, RECORD, "t-value")({"a": 7, "b": b"\x01"})

    found = Decoder(registry).decode(data)

    assert (found.form, found.schema_id, found.data) == ("avro", 1, {"a": 7, "b": "AQ=="})
    plain = json.dumps({"type": "record", "name": "P", "fields": [{"name": "n", "type": ["null", "string"]}]})
    registry.register("p-value", Schema(plain))
    written = encode('{"n": "x"}', "avro", registry, "p-value")
    assert Decoder(registry).decode(written, "avro").data == {"n": "x"}
    with pytest.raises(KafkaError, match="does not fit"):
        encode('{"n": 5}', "avro", registry, "p-value")


def test_what_cannot_be_decoded_as_asked_is_hex_with_the_reason() -> None:
    decoder = Decoder(MemoryRegistry())
    for data, form, reason in [
        (b"{", "json", "not JSON"),
        (b"\x00", "avro", "too few"),
        (b"\x01\x00\x00\x00\x01a", "avro", "first byte is 1"),
        (b"\x00\x00\x00\x00\x05a", "avro", "no schema 5"),
        (b"\x00\x00\x00\x00\x05a", "protobuf", "no schema 5"),
    ]:
        found = decoder.decode(data, form)
        assert (found.form, found.text) == ("hex", data.hex())
        assert reason in found.problem
    assert "no schema registry" in Decoder().decode(b"\x00\x00\x00\x00\x01a", "avro").problem
    with pytest.raises(KafkaError, match="unknown format"):
        decoder.decode(b"", "xml")


@given(st.binary(max_size=64), st.sampled_from(FORMATS))
def test_no_bytes_are_an_error(data: bytes, form: str) -> None:
    found = Decoder(MemoryRegistry()).decode(data, form)
    assert isinstance(found.pretty, str)
    assert Decoder(MemoryRegistry()).data(data, form) == found.data or found.data != found.data


@given(st.binary(max_size=64))
def test_what_is_shown_as_hex_base64_or_guessed_text_is_written_back_exactly(data: bytes) -> None:
    for form in ("hex", "base64"):
        assert encode(Decoder().decode(data, form).text, form) == data
    guessed = Decoder().decode(data)
    if guessed.form in ("text", "hex"):
        assert encode(guessed.text, guessed.form) == data


@pytest.mark.parametrize(("text", "form"), [("{", "json"), ("0", "hex"), ("a", "base64"), ("x", "xml"), ("{}", "avro")])
def test_a_text_that_does_not_fit_is_refused(text: str, form: str) -> None:
    with pytest.raises(KafkaError) as caught:
        encode(text, form)
    assert caught.value.code in (ErrorCode.INVALID_RECORD, ErrorCode.INVALID_CONFIG)


def test_a_dump_has_offsets_and_letters() -> None:
    lines = hex_dump(bytes(range(64, 90))).splitlines()
    assert lines[0] == "00000000  40 41 42 43 44 45 46 47 48 49 4a 4b 4c 4d 4e 4f  @ABCDEFGHIJKLMNO"
    assert lines[1].startswith("00000010  50 51")
    assert hex_dump(b"a" * 40, limit=16).endswith("... 24 more bytes")
