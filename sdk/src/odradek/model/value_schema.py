"""Schemas of values as tables need them, without the registry that keeps them."""

from __future__ import annotations

from dataclasses import dataclass

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"


@dataclass(frozen=True, slots=True)
class ValueSchema:
    """One schema and what it refers to.

    Attributes:
        kind: AVRO, JSON or PROTOBUF.
        text: of Protobuf the descriptor of the file, in base64.
        references: name and text of the schemas that it needs, each after those that it needs itself.
        version: of the subject; 0 where there is none.
    """

    kind: str
    text: str
    references: tuple[tuple[str, str], ...] = ()
    version: int = 0
