"""AVRO, PROTOBUF and JSON_SR with the registry of an embedded service: columns inferred, schemas registered and named.

Slow: a script of its own on Spark for each case, some seconds.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import odradek
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from odradek.client.serializers.registry import HttpRegistry, Schema
from odradek.sql import SqlError
from odradek.sql.running.registered import RegistryAddress

from tests.conformance.sql.runner import Outcome, Runner, source_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

FORMATS = ("AVRO", "PROTOBUF", "JSON_SR")
PERSON = {
    "type": "record", "name": "Person", "namespace": "org.example",
    "fields": [
        {"name": "Name", "type": ["string", "null"]},
        {"name": "age", "type": ["null", "int"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
        {"name": "home", "type": ["null", {"type": "record", "name": "Home", "fields": [
            {"name": "City", "type": ["null", "string"], "default": None}]}], "default": None},
    ],
}  # fmt: skip
PERSON_JSON = {
    "type": "object", "title": "Person",
    "properties": {"Name": {"type": "string"}, "age": {"type": "integer"}, "ok": {"type": "boolean"}},
}  # fmt: skip
ADULT_JSON = {"type": "object", "properties": {"Name": {"type": "string"}, "age": {"type": "integer"}}}
PERSON_PROTO = 'syntax = "proto3"; message Person { string Name = 1; int32 age = 2; repeated string tags = 3; }'


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with odradek.local(registry_port=0) as service:
        yield service.registry_url


@pytest.fixture(scope="module")
def registry(url: str) -> HttpRegistry:
    return HttpRegistry(url)


@pytest.fixture(scope="module")
def runner(spark: SparkSession, url: str) -> Runner:
    return Runner(spark, RegistryAddress.of(url))


def rows(runner: Runner, outcome: Outcome, topic: str) -> list[Any]:
    source = source_of(outcome.planner, topic)
    found = [runner.shown(source, each) for each in outcome.topics[topic]]
    return [(each["key"], each["value"]) for each in found]


def written_ids(outcome: Outcome, topic: str) -> set[int]:
    return {int.from_bytes((each.value or b"")[1:5], "big") for each in outcome.topics[topic]}


@pytest.mark.parametrize("name", FORMATS)
def test_every_type_is_read_and_written(runner: Runner, registry: HttpRegistry, name: str) -> None:
    low = name.lower()
    script = f"""
        CREATE STREAM s (k VARCHAR KEY, t VARCHAR, i INT, l BIGINT, d DOUBLE, b BOOLEAN, m DECIMAL(9, 2), y BYTES,
            a ARRAY<INT>, p MAP<VARCHAR, BIGINT>, u STRUCT<x INT, z VARCHAR>, ts TIMESTAMP, dt DATE, tm TIME,
            am ARRAY<DECIMAL(4, 1)>, pt MAP<VARCHAR, TIME>, pm MAP<VARCHAR, DECIMAL(4, 1)>, ud STRUCT<d DATE>)
            WITH (KAFKA_TOPIC = 'all-{low}', VALUE_FORMAT = '{name}');
        CREATE STREAM r WITH (KAFKA_TOPIC = 'out-{low}') AS SELECT * FROM s;
    """
    value = {
        "t": "x", "i": -1, "l": 5_000_000_000, "d": 1.5, "b": True, "m": 12.25, "y": "aGk=", "a": [1, 2],
        "p": {"one": 1}, "u": {"x": 3, "z": "w"}, "ts": 1_700_000_000_123, "dt": 20_000, "tm": 37_230_000,
        "am": [1.5, -100.0], "pt": {"a": 1}, "pm": {"b": 0.1}, "ud": {"d": -1},
    }  # fmt: skip
    nothing = dict.fromkeys(("ts", "dt", "tm", "m", "ud"))
    given_rows = [value, {**value, **nothing}]
    outcome = runner.run(
        script, [{"topic": f"all-{low}", "key": "k", "value": each, "timestamp": 1} for each in given_rows]
    )
    given, found = rows(runner, outcome, f"all-{low}"), rows(runner, outcome, f"out-{low}")
    assert found == given
    assert found[0][1]["L"] == 5_000_000_000
    assert [str(each) for each in (found[0][1]["M"], *found[0][1]["AM"])] == ["12.25", "1.5", "-100.0"]
    assert (found[1][1]["M"], found[1][1]["DT"], found[1][1]["TM"]) == (None, None, None)
    schema_id, schema = registry.at(f"out-{low}-value", None)
    assert written_ids(outcome, f"out-{low}") == {schema_id}
    assert schema.kind == {"JSON_SR": "JSON"}.get(name, name)
    again = runner.run(f"CREATE STREAM r WITH (KAFKA_TOPIC = 'out-{low}', VALUE_FORMAT = '{name}');", [])
    types = [
        {each.name: str(each.type) for each in one.planner.catalog.sources["R"].values} for one in (outcome, again)
    ]
    assert types[1] == types[0], "inferred of the schema that was registered"


@pytest.mark.parametrize(
    ("name", "text", "kind", "columns"),
    [
        ("AVRO", json.dumps(PERSON), "AVRO",
         {"NAME": "VARCHAR", "AGE": "INT", "TAGS": "ARRAY<VARCHAR>", "HOME": "STRUCT<CITY VARCHAR>"}),
        ("JSON_SR", json.dumps(PERSON_JSON), "JSON", {"NAME": "VARCHAR", "AGE": "BIGINT", "OK": "BOOLEAN"}),
        ("PROTOBUF", PERSON_PROTO, "PROTOBUF", {"NAME": "VARCHAR", "AGE": "INT", "TAGS": "ARRAY<VARCHAR>"}),
    ],
)  # fmt: skip
def test_columns_are_those_of_the_registered_schema(
    runner: Runner, registry: HttpRegistry, name: str, text: str, kind: str, columns: dict[str, str]
) -> None:
    topic = f"people-{kind.lower()}"
    schema_id = registry.register(f"{topic}-value", Schema(text, kind))
    for more in ("", f", VALUE_SCHEMA_ID = {schema_id}"):
        script = f"CREATE STREAM s (id INT KEY) WITH (KAFKA_TOPIC = '{topic}', VALUE_FORMAT = '{name}'{more});"
        source = runner.run(script, []).planner.catalog.sources["S"]
        assert {each.name: str(each.type) for each in source.values} == columns
        assert [each.name for each in source.keys] == ["ID"]


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [("AVRO", json.dumps(PERSON), "AVRO"), ("JSON_SR", json.dumps(ADULT_JSON), "JSON")],
)
def test_a_value_is_written_with_the_schema_that_the_script_names(
    runner: Runner, registry: HttpRegistry, name: str, text: str, kind: str
) -> None:
    schema_id = registry.register(f"named-{kind.lower()}", Schema(text, kind))
    script = f"""
        CREATE STREAM s (id INT KEY, name VARCHAR, age INT) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON');
        CREATE STREAM r WITH (VALUE_FORMAT = '{name}', VALUE_SCHEMA_ID = {schema_id}) AS SELECT id, name, age FROM s;
    """
    values = [{"NAME": "ada", "AGE": 36}, {"NAME": None, "AGE": None}][: 2 if name == "AVRO" else 1]
    outcome = runner.run(script, [{"topic": "s", "key": 1, "value": each, "timestamp": 1} for each in values])
    assert written_ids(outcome, "R") == {schema_id}
    if name == "AVRO":
        import io

        import fastavro

        parsed = fastavro.parse_schema(PERSON)
        read = [fastavro.schemaless_reader(io.BytesIO((each.value or b"")[5:]), parsed, None)
                for each in outcome.topics["R"]]  # fmt: skip
        assert [(each["Name"], each["age"]) for each in read] == [("ada", 36), (None, None)]
    else:
        assert json.loads((outcome.topics["R"][0].value or b"")[5:])["Name"] == "ada"


def test_fields_of_a_named_schema_without_a_column_have_their_default_or_are_left_out(
    runner: Runner, registry: HttpRegistry
) -> None:
    fields = [{"name": "N", "type": "int"}, {"name": "size", "type": "int", "default": 9}]
    avro = {"type": "record", "name": "Sized", "fields": fields}
    plain = {"type": "object", "properties": {"N": {"type": "integer"}, "size": {"type": "string"}}}
    for name, kind, schema in (("AVRO", "AVRO", avro), ("JSON_SR", "JSON", plain)):
        topic = f"sized-{kind.lower()}"
        schema_id = registry.register(f"{topic}-value", Schema(json.dumps(schema), kind))
        script = f"""
            CREATE STREAM s (id INT KEY, n INT) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON');
            CREATE STREAM r WITH (KAFKA_TOPIC = '{topic}', VALUE_FORMAT = '{name}', VALUE_SCHEMA_ID = {schema_id})
                AS SELECT id, n FROM s;
            CREATE STREAM again (id INT KEY) WITH (KAFKA_TOPIC = '{topic}', VALUE_FORMAT = '{name}');
            CREATE STREAM shown WITH (VALUE_FORMAT = 'JSON') AS SELECT * FROM again;
        """
        outcome = runner.run(script, [{"topic": "s", "key": 1, "value": {"N": 5}, "timestamp": 1}])
        written = (outcome.topics[topic][0].value or b"")[5:]
        assert written == b"\x0a\x12" if kind == "AVRO" else json.loads(written) == {"N": 5}
        size = 9 if kind == "AVRO" else None
        assert rows(runner, outcome, "SHOWN") == [(1, {"N": 5, "SIZE": size})]


def test_the_name_of_the_schema_is_the_scripts(runner: Runner, registry: HttpRegistry) -> None:
    script = """
        CREATE STREAM s (id INT KEY, n INT) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON');
        CREATE STREAM named WITH (VALUE_FORMAT = 'AVRO', VALUE_SCHEMA_FULL_NAME = 'org.example.Number')
            AS SELECT * FROM s;
        CREATE STREAM plain WITH (VALUE_FORMAT = 'AVRO') AS SELECT * FROM s;
    """
    runner.run(script, [{"topic": "s", "key": 1, "value": {"N": 5}, "timestamp": 1}])
    named = json.loads(registry.at("NAMED-value", None)[1].text)
    assert ".".join(filter(None, (named.get("namespace"), named["name"]))) == "org.example.Number"
    assert json.loads(registry.at("PLAIN-value", None)[1].text)["name"].endswith("KsqlDataSourceSchema")


@pytest.mark.parametrize(("more", "wanted"), [
    ("", {"T": "", "N": 0, "B": False, "A": [""], "U": {"X": 0}}),
    (", VALUE_PROTOBUF_NULLABLE_REPRESENTATION = 'OPTIONAL'",
     {"T": None, "N": None, "B": None, "A": [""], "U": {"X": None}}),
    (", VALUE_PROTOBUF_NULLABLE_REPRESENTATION = 'WRAPPER', SOURCED_BY_CONNECTOR = 'c'",
     {"T": None, "N": None, "B": None, "A": ["x"], "U": {"X": None}}),
])  # fmt: skip
def test_nulls_of_protobuf_are_zeros_unless_the_script_asks_for_them(
    runner: Runner, more: str, wanted: dict[str, Any]
) -> None:
    topic = f"zeros-{len(more)}"
    script = f"""
        CREATE STREAM s (k INT KEY, t VARCHAR, n INT, b BOOLEAN, a ARRAY<VARCHAR>, u STRUCT<x INT>)
            WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON');
        CREATE STREAM r WITH (KAFKA_TOPIC = '{topic}', VALUE_FORMAT = 'PROTOBUF'{more}) AS SELECT * FROM s;
    """
    given = {"T": None, "N": None, "B": None, "A": ["x" if "WRAPPER" in more else None], "U": {"X": None}}
    outcome = runner.run(script, [{"topic": "s", "key": 1, "value": given, "timestamp": 1}])
    assert rows(runner, outcome, topic) == [(1, wanted)]


@pytest.mark.parametrize("name", FORMATS)
def test_keys_with_schemas_join_and_group(runner: Runner, name: str) -> None:
    script = f"""
        CREATE STREAM s (k STRUCT<a INT> KEY, n INT) WITH (KAFKA_TOPIC = 'keys-{name}', FORMAT = '{name}');
        CREATE TABLE r WITH (KAFKA_TOPIC = 'sums-{name}') AS SELECT k->a AS a, SUM(n) AS t FROM s GROUP BY k->a;
    """
    inputs = [
        {"topic": f"keys-{name}", "key": {"K": {"A": a}}, "value": {"N": n}, "timestamp": 1}
        for a, n in ((1, 2), (1, 3))
    ]
    if name != "PROTOBUF":
        inputs = [each | {"key": each["key"]["K"]} for each in inputs]
    outcome = runner.run(script, inputs)
    assert [each["T"] for _, each in rows(runner, outcome, f"sums-{name}")] == [5]


def test_what_the_registry_does_not_have_is_named(runner: Runner, registry: HttpRegistry) -> None:
    with pytest.raises(SqlError, match="nowhere-value"):
        runner.run("CREATE STREAM s (id INT KEY) WITH (KAFKA_TOPIC = 'nowhere', VALUE_FORMAT = 'AVRO');", [])


def test_a_message_of_several_is_found_by_its_name_read_and_written(runner: Runner, registry: HttpRegistry) -> None:
    text = """
        syntax = "proto3"; import "google/protobuf/wrappers.proto";
        message Other { int32 id = 1; }
        message Order { string item = 1; int32 n = 2; google.protobuf.Int64Value big = 3; }
    """
    for part in ("key", "value"):
        schema_id = registry.register(f"messages-{part}", Schema(text, "PROTOBUF"))
    script = f"""
        CREATE STREAM given (item VARCHAR, n INT, big BIGINT) WITH (KAFKA_TOPIC = 'given', VALUE_FORMAT = 'JSON');
        CREATE STREAM named WITH (KAFKA_TOPIC = 'messages', VALUE_FORMAT = 'PROTOBUF', VALUE_SCHEMA_ID = {schema_id},
            VALUE_SCHEMA_FULL_NAME = 'Order') AS SELECT * FROM given;
        CREATE STREAM s WITH (KAFKA_TOPIC = 'messages', FORMAT = 'PROTOBUF', VALUE_SCHEMA_FULL_NAME = 'Order');
        CREATE STREAM r WITH (KEY_FORMAT = 'KAFKA', VALUE_FORMAT = 'JSON') AS SELECT * FROM s;
    """
    outcome = runner.run(script, [{"topic": "given", "value": {"ITEM": "pen", "N": 3, "BIG": 4}, "timestamp": 1}])
    assert written_ids(outcome, "messages") == {schema_id}
    assert (outcome.topics["messages"][0].value or b"")[5:7] == b"\x02\x02"  # the path of the second message
    source = outcome.planner.catalog.sources["S"]
    assert [(each.name, each.is_key) for each in source.columns] == [
        ("ID", True), ("ITEM", False), ("N", False), ("BIG", False),
    ]  # fmt: skip
    assert rows(runner, outcome, "R") == [(None, {"ITEM": "pen", "N": 3, "BIG": 4})]
    with pytest.raises(SqlError, match="has no message Nothing"):
        script = "CREATE STREAM s WITH (KAFKA_TOPIC = 'messages', VALUE_FORMAT = 'PROTOBUF'"
        runner.run(f"{script}, VALUE_SCHEMA_FULL_NAME = 'Nothing');", [])


def test_a_record_that_is_the_value_of_one_column_is_inferred_as_that(runner: Runner, registry: HttpRegistry) -> None:
    record = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": ["null", "int"]}]}
    head = b"\0" + registry.register("points-value", Schema(json.dumps(record))).to_bytes(4, "big")
    script = """
        CREATE STREAM s WITH (KAFKA_TOPIC = 'points', VALUE_FORMAT = 'AVRO', WRAP_SINGLE_VALUE = false);
        CREATE STREAM r WITH (VALUE_FORMAT = 'JSON') AS SELECT * FROM s;
        CREATE STREAM t WITH (KAFKA_TOPIC = 'points', VALUE_FORMAT = 'AVRO');
    """
    records = [head + b"\2\2", head + b"\0"]  # 1, and null
    outcome = runner.run(script, [{"topic": "points", "bytes": each, "timestamp": 1} for each in records])
    assert rows(runner, outcome, "R") == [(None, {"ROWVAL": {"X": 1}}), (None, {"ROWVAL": {"X": None}})]
    assert [each.name for each in outcome.planner.catalog.sources["T"].columns] == ["X"]


def test_maps_of_several_types_are_in_one_schema_of_avro(runner: Runner, registry: HttpRegistry) -> None:
    columns = "p MAP<VARCHAR, INT>, q MAP<VARCHAR, VARCHAR>, r ARRAY<MAP<VARCHAR, STRUCT<x MAP<VARCHAR, INT>>>>"
    script = f"""
        CREATE STREAM s ({columns}) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON');
        CREATE STREAM maps WITH (VALUE_FORMAT = 'AVRO') AS SELECT * FROM s;
        CREATE STREAM again ({columns}) WITH (KAFKA_TOPIC = 'MAPS', VALUE_FORMAT = 'AVRO');
        CREATE STREAM r WITH (VALUE_FORMAT = 'JSON') AS SELECT * FROM again;
    """
    value = {"P": {"a": 1}, "Q": {"b": "c"}, "R": [{"d": {"X": {"e": 2}}}]}
    outcome = runner.run(script, [{"topic": "s", "value": value, "timestamp": 1}])
    assert rows(runner, outcome, "R") == [(None, value)]
    inferred = runner.run("CREATE STREAM i WITH (KAFKA_TOPIC = 'MAPS', VALUE_FORMAT = 'AVRO');", [])
    types = [[str(each.type) for each in found.planner.catalog.sources[name].values]
             for found, name in ((inferred, "I"), (outcome, "S"))]  # fmt: skip
    assert types[0] == types[1]


def test_messages_of_structs_and_maps_have_the_names_of_connects_converter(
    runner: Runner, registry: HttpRegistry
) -> None:
    """As in ksqlDB: numbers go on in the order of the fields, those within a struct before those after it."""
    columns = """ORDERID BIGINT, ITEMID STRUCT<ITEMID BIGINT, CATEGORY STRUCT<ID BIGINT, NAME VARCHAR>>,
        ARRAYCOL ARRAY<STRUCT<A INT>>, MAPCOL MAP<VARCHAR, DOUBLE>,
        ADDRESS STRUCT<CITY VARCHAR, TAGS MAP<VARCHAR, INT>>"""
    value = {
        "ORDERID": 1, "ITEMID": {"ITEMID": 2, "CATEGORY": {"ID": 3, "NAME": "food"}}, "ARRAYCOL": [{"A": 4}],
        "MAPCOL": {"k": 1.5}, "ADDRESS": {"CITY": "Ulm", "TAGS": {"t": 5}},
    }  # fmt: skip
    script = f"""
        CREATE STREAM s ({columns}) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON');
        CREATE STREAM nested WITH (VALUE_FORMAT = 'PROTOBUF') AS SELECT * FROM s;
        CREATE STREAM shop WITH (VALUE_FORMAT = 'PROTOBUF', VALUE_SCHEMA_FULL_NAME = 'shop.Order') AS SELECT * FROM s;
        CREATE STREAM again ({columns}) WITH (KAFKA_TOPIC = 'NESTED', VALUE_FORMAT = 'PROTOBUF');
        CREATE STREAM r WITH (VALUE_FORMAT = 'JSON') AS SELECT * FROM again;
    """
    outcome = runner.run(script, [{"topic": "s", "value": value, "timestamp": 1}])
    assert rows(runner, outcome, "R") == [(None, value)]
    for topic, root, first in (("NESTED", "ConnectDefault1", 2), ("SHOP", "Order", 1)):
        text = registry.at(f"{topic}-value", None, serialized=True)[1].text
        [message] = FileDescriptorProto.FromString(base64.b64decode(text)).message_type
        item, category, array, entry, address, tags = (f"ConnectDefault{first + number}" for number in range(6))
        assert _names(message) == [root, [item, [category]], [array], [f"{entry}Entry"], [address, [f"{tags}Entry"]]]
        assert not message.nested_type[2].options.map_entry
    inferred = runner.run("CREATE STREAM i WITH (KAFKA_TOPIC = 'NESTED', VALUE_FORMAT = 'PROTOBUF');", [])
    types = [[str(each.type) for each in found.planner.catalog.sources[name].values]
             for found, name in ((inferred, "I"), (outcome, "S"))]  # fmt: skip
    assert types[0] == types[1]


def _names(message: Any) -> list[Any]:
    return [message.name, *map(_names, message.nested_type)]
