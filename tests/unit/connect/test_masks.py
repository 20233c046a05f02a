"""Masks of columns, with Debezium's own examples of hashes."""

from __future__ import annotations

import pytest
from odradek.connect.connectors.cdc.masks import Masks
from odradek.connect.connectors.cdc.tables import Column, Table, TableId
from odradek.connect.data import schema as schemas
from odradek.connect.data import semantic
from odradek.connect.errors import ConfigError, ConnectError

ID = TableId("public", "people")
HASH = "column.mask.hash.SHA-256.with.salt.salt"


def written(masks: Masks, values: dict[str, str | None], length: int = 0) -> dict[str, str | None]:
    """The row that is written of these values."""
    columns = [masks.column(ID, Column(name, schemas.OPTIONAL_STRING, str), length, is_key=False) for name in values]
    made, _ = Table(ID, "p", ".", tuple(columns), ()).decoded(list(values.values()))
    return {name: made.get(name) for name in values}


def test_text_is_masked_shortened_and_hashed_as_debezium_does() -> None:
    masks = Masks(
        {
            "column.mask.with.5.chars": "public.people.(card|pin)",
            "column.truncate.to.3.chars": "PUBLIC[.]people[.]note",
            HASH: "public.people.name",
            "column.mask.hash.MD5.with.salt.salt": ".*[.]nick",
            "column.mask.hash.v2.SHA-256.with.salt.salt": ".*[.]mail",
            "topic.prefix": "p",
        }
    )
    given = {
        "card": "4111",
        "pin": None,
        "note": "abcdef",
        "name": "hello",
        "nick": "hello",
        "mail": "hello",
        "id": "1",
    }
    assert written(masks, given) == {
        "card": "*****",
        "pin": "*****",
        "note": "abc",
        "name": "af5843a0f0e728ab0332c8888b6e1190bfb79e584f0d40538de8f10df6ef29c6",
        "nick": "46f48a7a5ea32efba87cbff49d46d35a",
        "mail": "cd31b3b98ece60cb739c0bf770b2de892ae0ad133f645513c3d83f08757a843a",
        "id": "1",
    }
    assert written(masks, {"name": "hello", "nick": None}, length=20) == {"name": "af5843a0f0e728ab0332", "nick": None}


def test_a_field_says_that_it_is_masked() -> None:
    masks = Masks({"column.mask.with.1.chars": ".*[.]a", "column.truncate.to.2.chars": ".*[.]b"})
    kinds = [masks.column(ID, Column(name, schemas.STRING, str), 0, is_key=False).schema for name in "ab"]
    assert [each.parameters for each in kinds] == [(("masked", "true"),), (("truncateLength", "2"),)]


def test_what_is_no_text_stays_and_keys_are_hashed_only() -> None:
    number, document = Column("a", schemas.INT32, int), Column("a", semantic.JSON, str)
    masks = Masks({"column.mask.with.1.chars": ".*"})
    assert masks.column(ID, number, 0, is_key=True) is number
    assert masks.column(ID, document, 0, is_key=False) is document
    with pytest.raises(ConnectError, match="hash it instead"):
        masks.column(ID, Column("id", schemas.STRING, str), 0, is_key=True)
    key = Masks({HASH: ".*"}).column(ID, Column("id", schemas.STRING, str), 0, is_key=True)
    assert key.decode("a") != key.decode("b")


@pytest.mark.parametrize(
    ("name", "value"),
    [("column.mask.with.x.chars", "a"), ("column.mask.hash.NO.with.salt.s", "a"), ("column.truncate.to.5.chars", "(")],
)
def test_an_option_that_is_none_is_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match="column"):
        Masks({name: value})
