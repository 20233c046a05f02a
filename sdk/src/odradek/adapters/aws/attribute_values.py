"""Conversion of values to and from DynamoDB's attribute values.

    str {"S": "text"}    int {"N": "17"}    bytes {"B": b"..."}    bool {"BOOL": True}    list {"L": [...]}
    dict {"M": {...}}

Only the types of ports.table.Value; they have passed validation.py. botocore does the base64 of bytes.
"""

from __future__ import annotations

from typing import Any

from odradek.ports.expression_text import Expressions
from odradek.ports.table import Item, Key, Value

AttributeValue = dict[str, Any]


def to_attribute(value: Value | Item) -> AttributeValue:
    """Convert a value to an attribute value."""
    value_type = type(value)
    if value_type is bytes:
        return {"B": value}
    if value_type is str:
        return {"S": value}
    if value_type is int:
        return {"N": str(value)}
    if value_type is bool:
        return {"BOOL": value}
    if isinstance(value, list):
        return {"L": [to_attribute(element) for element in value]}
    if isinstance(value, dict):
        return {"M": {name: to_attribute(element) for name, element in value.items()}}
    raise ValueError(f"a table cannot store a {value_type.__name__}")


def from_attribute(attribute: AttributeValue) -> Any:
    """Convert an attribute value to a value."""
    ((type_code, value),) = attribute.items()
    if type_code == "N":
        return int(value)
    if type_code == "L":
        return [from_attribute(element) for element in value]
    if type_code == "M":
        return {name: from_attribute(element) for name, element in value.items()}
    if type_code in ("S", "B", "BOOL"):
        return value
    raise ValueError(f"an attribute of DynamoDB's type {type_code} was not written by Odradek")


def to_parameters(expressions: Expressions) -> dict[str, Any]:
    """Return the request parameters with the values of the expressions' placeholders."""
    parameters: dict[str, Any] = {}
    if expressions.names:
        parameters["ExpressionAttributeNames"] = {placeholder: name for name, placeholder in expressions.names.items()}
    if expressions.values:
        parameters["ExpressionAttributeValues"] = {
            placeholder: to_attribute(value) for placeholder, value in expressions.values.items()
        }
    return parameters


def to_key(key: Key) -> dict[str, AttributeValue]:
    """Return the key attributes."""
    return {"pk": {"S": key[0]}, "sk": {"S": key[1]}}


def to_item(key: Key, item: Item) -> dict[str, AttributeValue]:
    """Return the whole stored item, including its key."""
    attributes = {name: to_attribute(value) for name, value in item.items()}
    return attributes | to_key(key)


def from_item(attributes: dict[str, AttributeValue]) -> tuple[Key, Item]:
    """Return key and item of a whole stored item."""
    item = {name: from_attribute(attribute) for name, attribute in attributes.items()}
    return Key(item.pop("pk"), item.pop("sk")), item
