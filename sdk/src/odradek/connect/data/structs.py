"""Structs, and the rule which Python values fit a schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

from odradek.connect.data import logical
from odradek.connect.data.schema import INTEGER_BITS, Schema, Type
from odradek.connect.errors import DataError


class Struct:
    """A value with named fields of a fixed schema. Fields are checked when they are set.

    `struct["f"]` returns the default of a field that is null, if its schema has one; `without_default` does not.

    Raises:
        DataError: for a field that does not exist, and for a value that does not fit its schema.
    """

    __slots__ = ("_values", "schema")

    def __init__(self, schema: Schema, values: Mapping[str, Any] | None = None) -> None:
        if schema.type is not Type.STRUCT:
            raise DataError(f"a struct needs the schema of a struct, not of {schema.type.value}")
        self.schema = schema
        self._values: dict[str, Any] = {}
        for name, value in (values or {}).items():
            self[name] = value

    @classmethod
    def of_checked(cls, schema: Schema, values: dict[str, Any]) -> Self:
        """Return a struct of values that are known to fit their fields: of a reader that has just made them so.

        Args:
            values: of fields of the schema; a field that is missing is null. The struct keeps this dictionary.
        """
        made = cls.__new__(cls)
        made.schema, made._values = schema, values
        return made

    @property
    def present(self) -> Mapping[str, Any]:
        """The values that are set, without defaults."""
        return self._values

    def __getitem__(self, name: str) -> Any:
        value = self._values.get(name)
        if value is None:
            return self._field(name).default
        return value

    def __setitem__(self, name: str, value: Any) -> None:
        check_value(self._field(name), value, name)
        self._values[name] = value

    def _field(self, name: str) -> Schema:
        schema_field = self.schema.field(name)
        if schema_field is None:
            raise DataError(
                f"{name!r} is not a field of {self.schema.name or 'the struct'}: {', '.join(self) or 'none'}"
            )
        return schema_field.schema

    def without_default(self, name: str) -> Any:
        """Return the value of a field; None if it is null, even if its schema has a default."""
        self._field(name)
        return self._values.get(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a field's value, or `default` if the struct has no such field."""
        return self[name] if self.schema.field(name) is not None else default

    def __iter__(self) -> Iterator[str]:
        return iter(self.schema.names)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.schema.field(name) is not None

    def items(self) -> Iterator[tuple[str, Any]]:
        """Yield names and values in the order of the schema, with defaults."""
        return iter(self.flat().items())

    def flat(self) -> dict[str, Any]:
        """Return a new dictionary of what `items` yields."""
        get = self._values.get
        made = {name: get(name) for name in self.schema.names}
        if None in made.values():
            for field in self.schema.fields:
                if made[field.name] is None:
                    made[field.name] = field.schema.default
        return made

    def as_dict(self) -> dict[str, Any]:
        """Return plain dictionaries and lists, at all levels."""
        return {name: plain(value) for name, value in self.items()}

    def validate(self) -> None:
        """Raise DataError if a required field is null."""
        for field in self.schema.fields:
            check_value(field.schema, self._values.get(field.name), field.name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Struct):
            return NotImplemented
        return same_struct(self.schema, other.schema) and all(self._values.get(n) == other._values.get(n) for n in self)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Struct({', '.join(f'{name}={value!r}' for name, value in self.items())})"


def same_struct(one: Schema, other: Schema) -> bool:
    """Return True if structs of both schemas have the same fields and name; whether null is allowed does not matter."""
    return one is other or (one.fields == other.fields and one.name == other.name and one.version == other.version)


def plain(value: Any) -> Any:
    """Return a value with its structs as dictionaries."""
    if isinstance(value, Struct):
        return value.as_dict()
    if isinstance(value, list | tuple):
        return [plain(element) for element in value]
    if isinstance(value, Mapping):
        return {name: plain(element) for name, element in value.items()}
    return value


_PYTHON: dict[Type, tuple[type, ...]] = {
    **dict.fromkeys(INTEGER_BITS, (int,)),
    Type.FLOAT32: (float, int),
    Type.FLOAT64: (float, int),
    Type.BOOLEAN: (bool,),
    Type.STRING: (str,),
    Type.BYTES: (bytes, bytearray, memoryview),
    Type.ARRAY: (list, tuple),
    Type.MAP: (Mapping,),
    Type.STRUCT: (Struct,),
}


def _fits(value: object, schema_type: Type) -> bool:
    return isinstance(value, _PYTHON[schema_type]) and (schema_type is Type.BOOLEAN or not isinstance(value, bool))


def check_value(schema: Schema, value: Any, name: str = "value") -> None:
    """Raise DataError unless the value fits the schema."""
    if value is None:
        if not schema.optional and schema.default is None:
            raise DataError(f"{name} must not be null: it is required and has no default")
        return
    if schema.name in logical.LOGICAL:
        logical.encode(schema, value)
        return
    schema_type = schema.type
    if not _fits(value, schema_type):
        raise DataError(f"{name} must be of type {schema_type.value}, not {type(value).__name__} {value!r:.80}")
    bits = INTEGER_BITS.get(schema_type)
    if bits is not None and not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise DataError(f"{name} does not fit {schema_type.value}: {value}")
    if schema_type is Type.ARRAY:
        for element in value:
            check_value(schema.elements, element, f"an element of {name}")
    elif schema_type is Type.MAP:
        assert schema.key_schema is not None
        for key, element in value.items():
            check_value(schema.key_schema, key, f"a key of {name}")
            check_value(schema.elements, element, f"{name}[{key!r}]")
    elif schema_type is Type.STRUCT and not same_struct(value.schema, schema):
        raise DataError(f"{name} is a struct of another schema ({value.schema.name or 'unnamed'})")
