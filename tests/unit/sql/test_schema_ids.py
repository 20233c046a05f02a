"""A query whose result is to have a registered schema is refused when it is planned, if the schema does not fit."""

from __future__ import annotations

import pytest
from odradek.errors import ErrorCode, KafkaError
from odradek.sql.catalog import Form
from odradek.sql.parse import parse
from odradek.sql.plan import Started
from odradek.sql.position import SqlError
from odradek.sql.script import Planner
from odradek.sql.types import SqlType, struct_of

SOURCE = "CREATE STREAM s (id INT KEY, name VARCHAR, age INT) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON');\n"
NAME = struct_of({"Name": SqlType("VARCHAR"), "tag": SqlType("VARCHAR")})


def registry(form: Form, topic: str, part: str) -> SqlType:
    """Has schema 1 only."""
    if form.schema_id != 1:
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, f"schema {form.schema_id} is not registered")
    return NAME


def started(select: str, schema_id: int) -> Started:
    planner = Planner(schemas=registry)
    text = f"{SOURCE}CREATE STREAM r WITH (VALUE_FORMAT = 'AVRO', VALUE_SCHEMA_ID = {schema_id}) AS {select};"
    *_, action = [planner.plan(each) for each in parse(text)]
    assert isinstance(action, Started)
    return action


def test_a_schema_that_has_all_columns_is_taken() -> None:
    assert started("SELECT id, name FROM s", 1).source.value_schema_id == 1


@pytest.mark.parametrize(
    ("select", "schema_id", "refusal"),
    [
        ("SELECT id, name FROM s", 2, "schema 2 is not registered"),
        ("SELECT id, name, age, age AS years FROM s", 1, "the schema with id 1 has no field for AGE, YEARS"),
    ],
)
def test_an_unknown_schema_and_missing_fields_are_refused(select: str, schema_id: int, refusal: str) -> None:
    with pytest.raises(SqlError, match=refusal) as refused:
        started(select, schema_id)
    assert refused.value.at is not None
    assert refused.value.at.line == 2
