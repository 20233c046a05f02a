"""Shared by transforms: the choice of key or value, requirements on types, and schemas that keep their metadata."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal, TypeVar

from odradek.connect.config import ConfigDef, Kind
from odradek.connect.data.schema import Schema, Type
from odradek.connect.data.structs import Struct
from odradek.connect.errors import DataError
from odradek.connect.plugin import Transformation
from odradek.connect.record import ConnectRecord, Header

_SCHEMAS_CACHED = 64

NULLS = ConfigDef().define(
    "replace.null.with.default",
    Kind.BOOLEAN,
    True,
    "Whether a null of a field that has a default is replaced by the default.",
)


class PartTransformation(Transformation):
    """A transform of the key or of the value. Concrete classes end in Key and Value."""

    part: ClassVar[Literal["key", "value"]] = "value"
    purpose: ClassVar[str] = ""

    def configure(self, configs: Mapping[str, Any]) -> None:
        super().configure(configs)
        self._schemas: dict[Schema, Schema] = {}
        self._replaces_nulls: bool = self.configs.get("replace.null.with.default", True)

    def read(self, record: ConnectRecord) -> tuple[Schema | None, Any]:
        """Return schema and value of the part."""
        if self.part == "key":
            return record.key_schema, record.key
        return record.value_schema, record.value

    def written(
        self, record: ConnectRecord, schema: Schema | None, value: Any, headers: tuple[Header, ...] | None = None
    ) -> ConnectRecord:
        """Return the record with another schema and value of the part."""
        changes: dict[str, Any] = {f"{self.part}_schema": schema, self.part: value}
        if headers is not None:
            changes["headers"] = headers
        return record.replace(**changes)

    def schema_once(self, schema: Schema, make: Callable[[Schema], Schema]) -> Schema:
        """Return the changed schema of a schema, which is made once."""
        made = self._schemas.get(schema)
        if made is None or len(self._schemas) > _SCHEMAS_CACHED:
            self._schemas.clear()
            made = self._schemas[schema] = make(schema)
        return made

    def value_of(self, struct: Struct, name: str) -> Any:
        """Return a field's value, with its default as configured."""
        return struct[name] if self._replaces_nulls else struct.without_default(name)

    def mapping(self, value: Any) -> dict[str, Any]:
        """Return a copy of a value without a schema. Raises DataError unless it is a map."""
        if not isinstance(value, Mapping):
            raise DataError(f"{self._name} needs a map where there is no schema, not {_kind(value)}")
        return dict(value)

    def struct(self, value: Any) -> Struct:
        """Return the value. Raises DataError unless it is a struct."""
        if not isinstance(value, Struct):
            raise DataError(f"{self._name} needs a struct, not {_kind(value)}")
        return value

    @property
    def _name(self) -> str:
        return type(self).__name__

    @abstractmethod
    def apply(self, record: ConnectRecord) -> ConnectRecord | None: ...


def _kind(value: Any) -> str:
    return "null" if value is None else type(value).__name__


def basics(schema: Schema, **changes: Any) -> Schema:
    """Return a schema with the name, version, doc and parameters of another one: required, without a default."""
    return replace(schema, optional=False, default=None, **changes)


def retyped(schema: Schema, schema_type: Type) -> Schema:
    """Return a schema of another type with the name, version, doc and parameters of this one."""
    return basics(schema, type=schema_type, fields=(), key_schema=None, value_schema=None)


P = TypeVar("P", bound=PartTransformation)


def of_part(base: type[P], part: Literal["key", "value"]) -> type[P]:
    """Return the concrete class of a transform for keys or values."""
    name = base.__name__ + part.capitalize()
    made = type(name, (base,), {"part": part, "__doc__": base.__doc__, "__module__": base.__module__})
    return made
