"""Files that people wrote, as text and as protoc's descriptors: one `File`; and the table of what readers can read."""

from __future__ import annotations

import base64
import importlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import google.type
import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.registry import schemas
from odradek.registry.compatibility_protobuf import unreadable
from odradek.registry.errors import SchemaInvalid
from odradek.registry.protobuf.files import Enum, File, Message, canonical, resolve
from odradek.registry.protobuf.text import parse_text
from odradek.registry.protobuf.wire import encode_descriptor, parse_descriptor
from odradek.registry.schemas import parse_proto

from tests.support.examples import examples

ROOT = Path(google.type.__path__[0]).parent.parent
FILES = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("google/[tra]*/**/*.proto"))


def without_options(file: File) -> File:
    """Return the parts of a file that text and descriptor share: custom options are bytes here, words there."""

    def enum(declared: Enum) -> Enum:
        return replace(declared, options=())

    def message(declared: Message) -> Message:
        fields = tuple(replace(field, options=()) for field in declared.fields)
        inner, enums = tuple(map(message, declared.messages)), tuple(map(enum, declared.enums))
        return replace(declared, fields=fields, messages=inner, enums=enums, options=())

    messages, enums = tuple(map(message, file.messages)), tuple(map(enum, file.enums))
    return replace(file, messages=messages, enums=enums, options=(), others=())


def test_googles_files_are_read_as_protoc_reads_them() -> None:
    assert len(FILES) > 30
    texts = {path: parse_text((ROOT / path).read_text()) for path in FILES}
    for path, file in texts.items():
        module = importlib.import_module(path.removesuffix(".proto").replace("/", ".") + "_pb2")
        descriptor = parse_descriptor(base64.b64encode(module.DESCRIPTOR.serialized_pb).decode())
        (text, types), (made, _) = resolve(file, texts), resolve(descriptor, texts)
        assert canonical(without_options(text)) == canonical(without_options(made)), path
        again = parse_descriptor(encode_descriptor(text, types, path))
        assert canonical(without_options(resolve(again, texts)[0])) == canonical(without_options(text)), path


HEAD = 'syntax = "proto3"; package p; '

CASES: list[tuple[str, str, str | None]] = [
    ("message M { int32 a = 1; }", "message M { int32 a = 1; }", None),
    ("message M { int32 a = 1; string b = 2; }", "message M { int32 a = 1; }", None),
    ("message M { int32 a = 1; }", "message M { int32 a = 1; string b = 2; }", None),
    ("message M { int64 a = 1; }", "message M { int32 a = 1; }", None),
    ("message M { bool a = 1; }", "message M { uint64 a = 1; }", None),
    ("message M { string a = 1; }", "message M { bytes a = 1; }", None),
    ("message M { sint32 a = 1; }", "message M { int32 a = 1; }", "type changed"),
    ("message M { fixed32 a = 1; }", "message M { fixed64 a = 1; }", "type changed"),
    ("message M { string a = 1; }", "message M { int32 a = 1; }", "type changed"),
    ("message M { int32 b = 1; }", "message M { int32 a = 1; }", None),
    ("message M { repeated int32 a = 1; }", "message M { int32 a = 1; }", "repeated"),
    ("message M { repeated string a = 1; }", "message M { string a = 1; }", None),
    ("message M { } message N { }", "message M { }", None),
    ("message M { }", "message M { } message N { }", "N was removed"),
    ("message M { }", "message M { message I { } }", "M.I was removed"),
    ("message M { map<string, int32> a = 1; }", "message M { map<string, int64> a = 1; }", None),
    ("message M { map<string, int32> a = 1; }", "message M { map<int32, int32> a = 1; }", "map"),
    ("message M { map<string, int32> a = 1; }", "message M { string a = 1; }", "map"),
    ("enum E { A = 0; B = 1; } message M { E a = 1; }", "enum E { A = 0; } message M { E a = 1; }", None),
    ("message A { } message B { } message M { B a = 1; }", "message A { } message B { } message M { A a = 1; }",
     "type changed"),
    ("message M { oneof o { int32 a = 1; } }", "message M { int32 a = 1; }", None),
    ("message M { oneof o { int32 a = 1; int32 b = 2; } }", "message M { int32 a = 1; int32 b = 2; }", "moved into"),
    ("message M { oneof o { int32 a = 1; int32 b = 2; } }", "message M { int32 a = 1; oneof o { int32 b = 2; } }",
     "moved into"),
    ("message M { oneof o { int32 a = 1; int32 b = 2; } }", "message M { oneof o { int32 a = 1; } }", None),
    ("message M { oneof o { int32 a = 1; } }", "message M { oneof o { int32 a = 1; int32 b = 2; } }", "of the oneof"),
    ("message M { int32 a = 1; }", "message M { oneof o { int32 a = 1; } }", "moved out of the oneof"),
]  # fmt: skip


def file_of(text: str) -> File:
    return resolve(parse_text(text), {})[0]


@pytest.mark.parametrize(("reader", "writer", "why"), CASES)
def test_the_table(reader: str, writer: str, why: str | None) -> None:
    problems = unreadable(file_of(HEAD + reader), file_of(HEAD + writer))
    assert bool(problems) == (why is not None), problems
    assert why is None or any(why in problem for problem in problems), problems


def test_required_fields_stay() -> None:
    with_it, without = file_of("message M { required int32 a = 1; }"), file_of("message M { }")
    assert unreadable(with_it, without)
    assert unreadable(without, with_it)
    assert unreadable(with_it, with_it) == []


def test_another_package_is_no_difference() -> None:
    text = 'syntax = "proto3"; package {}; message A {{ }} message M {{ A a = 1; }}'
    assert unreadable(file_of(text.format("p")), file_of(text.format("q"))) == []


def test_form_and_order_do_not_make_another_schema() -> None:
    one, types = resolve(
        parse_text(HEAD + "/* c */ enum E { A = 0; } message M { E e = 2; optional int32 a = 1; }"), {}
    )
    other = file_of(HEAD + "message M { optional int32 a = 1; // c\n p.E e = 2; } enum E { A = 0; }")
    third = resolve(parse_proto(encode_descriptor(one, types)), {})[0]
    assert canonical(one) == canonical(other) == canonical(third)
    assert canonical(one) != canonical(file_of(HEAD + "enum E { A = 0; } message M { E e = 2; int32 a = 1; }"))


def test_confluents_options_are_one_schema_as_text_and_as_descriptor() -> None:
    head = 'syntax = "proto3"; import "confluent/meta.proto"; '
    written = [
        """option (confluent.message_meta).doc = "a \\"b\\" ü"; option (confluent.message_meta).tags = "PII";
           int32 a = 1 [packed = false, (confluent.field_meta) = {
             params: [{ value: "6", key: "precision" }, { key: "scale", value: "2" }], tags: ["x", "y"] }];""",
        """option (.confluent.message_meta) = { tags: ["PII"] doc: 'a "b"' ' ü' };
           int32 a = 1 [(confluent.field_meta) = { tags: "x", tags: "y"
             params { key: "scale" value: "2" }; params: < key: "precision", value: "6" > }, packed = false];""",
    ]
    files = [resolve(parse_text(f"{head} message M {{ {field_text} }}"), {})[0] for field_text in written]
    texts = {canonical(file) for file in files}
    assert len(texts) == 1
    proto = descriptor_pb2.FileDescriptorProto.FromString(
        base64.b64decode(encode_descriptor(*resolve(files[0], {}), "m.proto"))
    )
    options = proto.message_type[0].field[0].options.SerializeToString(deterministic=True)
    assert options.endswith(b"\x12\x0e\n\tprecision\x12\x016\x12\n\n\x05scale\x12\x012\x1a\x01x\x1a\x01y")
    again = parse_descriptor(base64.b64encode(proto.SerializeToString()).decode())
    assert canonical(resolve(again, {})[0]) in texts
    same = [schemas.parse(schemas.Schema("PROTOBUF", text), ()).guid for text in (
        f"{head} message M {{ {written[0]} }}", base64.b64encode(proto.SerializeToString()).decode(),
    )]  # fmt: skip
    assert same[0] == same[1]


@pytest.mark.parametrize(
    "value", ['"x"', "{ other: 1 }", "{ params: { key: 1 } }", '{ doc: "a" ', "[ ]", '{ doc: "\\x" }']
)
def test_an_option_that_is_not_confluents_stays_as_it_is(value: str) -> None:
    text = f'syntax = "proto3"; message M {{ int32 a = 1 [(confluent.field_meta) = {value}]; }}'
    if value in ('{ doc: "a" ', "[ ]"):
        with pytest.raises(SchemaInvalid):
            parse_text(text)
        return
    [(name, option_value)] = parse_text(text).messages[0].fields[0].options
    assert name == "(confluent.field_meta)"
    assert option_value.split() == value.replace(":", " : ").split()


def test_a_text_becomes_a_descriptor_that_protobuf_takes() -> None:
    from google.protobuf import descriptor_pool

    text = (
        HEAD
        + """
        option java_package = "a.b";
        message M { reserved 9, 20 to max; reserved "old"; map<string, I> m = 1; optional string s = 2;
          oneof o { int32 x = 3; I y = 4; } repeated int32 packed = 5 [packed = false]; message I { E e = 1; } }
        enum E { option allow_alias = true; A = 0; B = 0; C = -1; }"""
    )
    file, types = resolve(parse_text(text), {})
    proto: Any = descriptor_pb2.FileDescriptorProto.FromString(
        base64.b64decode(encode_descriptor(file, types, "m.proto"))
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(proto)
    message = pool.FindMessageTypeByName("p.M")
    assert [field.number for field in message.fields] == [1, 2, 3, 4, 5]
    assert message.fields_by_name["m"].message_type.GetOptions().map_entry
    assert message.oneofs_by_name["o"].fields[1].name == "y"
    assert proto.options.java_package == "a.b"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("message M { int32 a = 1 }", "expected ';'"),
        ("message M { Missing a = 1; }", "neither defined nor imported"),
        ("message M { int32 a = 1; int32 b = 1; }", "twice"),
        ("message M { int32 a = 19000; }", "not a valid field number"),
        ("message M { reserved 1; int32 a = 1; }", "reserved"),
        ('syntax = "proto4";', "proto2 or proto3"),
        ('edition = "2023";', "editions"),
        ('import "gone.proto"; message M { }', "references"),
        ("message M { optional group G = 1 { } }", "groups"),
        ('syntax = "proto3"; enum E { A = 1; }', "must be 0 in proto3"),
        ("message M { } message M { }", "twice"),
        ("message M { map<double, int32> a = 1; }", "not a map"),
        ("message A { " * 40 + "}" * 40, "nested"),
        ("message M { ! }", "not valid here"),
    ],
)
def test_what_is_no_file_is_told(text: str, why: str) -> None:
    with pytest.raises(SchemaInvalid, match=why):
        resolve(parse_proto(text), {})


@settings(max_examples=examples(300))
@given(st.binary(max_size=60))
def test_any_bytes_give_a_file_or_a_reason(data: bytes) -> None:
    try:
        resolve(parse_descriptor(base64.b64encode(data).decode()), {})
    except SchemaInvalid:
        pass


_WORDS = st.sampled_from(
    [
        *"{}=1;<>,()[]-./a",
        "message",
        "M",
        "int32",
        "oneof",
        "map",
        "enum",
        "reserved",
        "to",
        "max",
        '"x"',
        "option",
        "import",
    ]
)


@settings(max_examples=examples(300))
@given(st.lists(_WORDS, max_size=25))
def test_any_words_give_a_file_or_a_reason(words: list[str]) -> None:
    try:
        resolve(parse_text(" ".join(words)), {})
    except SchemaInvalid:
        pass
