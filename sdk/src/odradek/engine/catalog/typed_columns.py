"""The typed columns of a topic's values, from its configuration and the registry.

    odradek.table.schema          these columns, in these types
    odradek.table.value.schema    registry: those of the subject <topic>-value; none; or those of a schema given there

The subject's columns follow from all its versions (model/kinds.py), so that all who ask see the same columns, and
an Iceberg table can follow each change. A registry that does not answer is not the same as one without the subject.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odradek.engine.catalog.topic_configs import (
    TABLE_SCHEMA,
    TABLE_VALUE_SCHEMA,
    VALUE_SCHEMA_NONE,
    VALUE_SCHEMA_REGISTRY,
    parse_table_columns,
)
from odradek.errors import ErrorCode, FormatError, KafkaError
from odradek.model.kinds import Column, Fields, columns_of_versions, with_given
from odradek.model.value_schema import AVRO, JSON, PROTOBUF, ValueSchema
from odradek.ports.value_schemas import ValueSchemas

if TYPE_CHECKING:
    from odradek.columnar.typed.typed_values import TypedValues

_UNKNOWN_MAX = 100  # ids without a schema: more are bytes that only look like ids, and each costs a request
_log = logging.getLogger("odradek.maintenance")


@dataclass(frozen=True, slots=True)
class ColumnsOfTopic:
    """The typed columns of a topic, and how its values are read.

    Attributes:
        newest: the schema that the values are read as.
        is_prefixed: values may begin with the id of a schema of the registry.
        why: columns of a schema are missing; empty: none are.
    """

    columns: tuple[Column, ...] = ()
    newest: ValueSchema | None = None
    is_prefixed: bool = True
    why: str = ""


class TypedColumns:
    """The typed columns of topics.

    Args:
        schemas: the registry; None: this process has none, and columns are those of the configuration.
    """

    def __init__(self, schemas: ValueSchemas | None) -> None:
        self._schemas = schemas

    async def of(self, topic: str, configs: Mapping[str, str]) -> ColumnsOfTopic:
        """Return the typed columns of a topic. Raises StoreUnavailable if the registry does not answer.

        Args:
            configs: the overrides of the topic.
        """
        given = parse_table_columns(configs.get(TABLE_SCHEMA, ""))
        source = configs.get(TABLE_VALUE_SCHEMA, VALUE_SCHEMA_REGISTRY)
        found = ColumnsOfTopic()
        if self._schemas is not None and source != VALUE_SCHEMA_NONE:
            try:
                found = await self._described(self._schemas, topic, source)
            except (FormatError, KafkaError) as error:
                if isinstance(error, KafkaError) and error.code is not ErrorCode.INVALID_CONFIG:
                    raise
                found = ColumnsOfTopic(why=f"the schema of {topic}'s values gives no typed columns: {error}")
                _log.warning("%s", found.why)
        columns = with_given(found.columns, given)
        return ColumnsOfTopic(columns, found.newest, found.is_prefixed, found.why)

    async def learn(self, values: TypedValues, ids: Iterable[int]) -> None:
        """Tell a reader the schemas of ids (typed_values.SchemasNeeded). Raises StoreUnavailable."""
        for schema_id in ids:
            schema = None
            if self._schemas is not None and values.unknown < _UNKNOWN_MAX:
                try:
                    schema = await self._schemas.by_id(schema_id)
                except FormatError as error:
                    _log.warning("values of schema %d have no typed columns: %s", schema_id, error)
            values.know(schema_id, schema)

    @staticmethod
    async def _described(schemas: ValueSchemas, topic: str, source: str) -> ColumnsOfTopic:
        if source == VALUE_SCHEMA_REGISTRY:
            versions = await schemas.versions(f"{topic}-value")
            if not versions:
                return ColumnsOfTopic()
        else:
            versions = [await schemas.given(source)]
        columns = columns_of_versions(_fields_of_all(versions))
        return ColumnsOfTopic(columns, versions[-1], is_prefixed=source == VALUE_SCHEMA_REGISTRY)


def _fields_of_all(versions: Sequence[ValueSchema]) -> list[tuple[int, Fields]]:
    """Return number and fields of each version. Raises FormatError if those of the last one cannot be read."""
    found = []
    for each in versions:
        try:
            found.append((each.version, _fields(each)))
        except FormatError:
            if each is versions[-1]:
                raise
    return found


def _fields(schema: ValueSchema) -> Fields:
    if schema.kind == AVRO:
        from odradek.columnar.typed.avro_values import avro_fields

        return avro_fields(schema)
    if schema.kind == JSON:
        from odradek.columnar.typed.json_schemas import json_fields

        return json_fields(schema)
    assert schema.kind == PROTOBUF
    from odradek.columnar.typed.protobuf_values import protobuf_fields

    return protobuf_fields(schema)
