"""A chunk of values to recipes: what the cells of typed columns make, byte for byte, is not kept as bytes.

    1  each value is split into a form and texts (forms.py)
    2  the texts of a field in all values of a form are compared with what its cells make, by each encoding
    3  what no cell makes goes into the rest; a value of which no cell makes anything stays as it is

Only texts that are equal become cells, so a recipe makes its value by construction; the file is read back all the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from odradek.columnar.recipes.avro_forms import AvroForms
from odradek.columnar.recipes.forms import Form, Forms, Hole
from odradek.columnar.recipes.json_forms import JsonForms
from odradek.columnar.recipes.protobuf_forms import ProtobufForms
from odradek.columnar.typed.arrow_kinds import kind_of_arrow
from odradek.columnar.typed.schema_prefix import PREFIX_BYTES
from odradek.columnar.typed.typed_values import TypedValues
from odradek.errors import FormatError
from odradek.extras import MissingExtra
from odradek.format.offset_index import Leaf
from odradek.format.parquet.recipes import (
    Cells,
    CellStep,
    Step,
    encode_recipe,
    encode_rest,
    encoded_cells,
)
from odradek.model.kinds import Column, Kind
from odradek.model.value_schema import AVRO, PROTOBUF, ValueSchema

_RECIPES_MAX = 64  # of a form in a chunk: values that would need another one stay
_DIGITS_MAX = 9
_PHYSICAL = {
    **dict.fromkeys(("int", "date"), "int32"),
    **dict.fromkeys(("bigint", "timestamp", "timestamp_ntz"), "int64"),
    **dict.fromkeys(("string", "binary"), "bytes"),
    **{name: name for name in ("float", "double", "boolean")},
}
_AS_STORED = {"int32": pa.int32(), "int64": pa.int64(), "bytes": pa.binary()}


class Columns(NamedTuple):
    """The columns of a file for a chunk of values: the bytes that stay, recipes, and the rest."""

    kept: pa.BinaryArray
    recipes: pa.BinaryArray
    rests: pa.BinaryArray


class RecipeWriter:
    """Makes recipes of a topic's values.

    Args:
        values: reads the typed columns; it knows the schemas of the values that it has read.
    """

    def __init__(self, values: TypedValues) -> None:
        self._values = values
        self._columns = {column.field: column for column in values.columns}
        self._fields = {column.field: column.kind for column in values.columns}
        self._plain = self._forms(values.plain_schema, 0)
        self._by_id: dict[int, Forms | None] = {}

    def columns_of(self, values: pa.BinaryArray, typed: Sequence[pa.Array]) -> Columns:
        """Return what a file has of values.

        Args:
            typed: the typed columns of the same rows.
        """
        kept = values.to_pylist()
        recipes: list[bytes | None] = [None] * len(kept)
        rests: list[bytes | None] = [None] * len(kept)
        cells = _CellsOf(dict(zip((column.name for column in self._values.columns), typed, strict=True)))
        for form, rows, texts in self._split(kept):
            for row, recipe, rest_bytes in _recipes(form, rows, texts, self._paths(form, cells)):
                kept[row], recipes[row], rests[row] = None, recipe, rest_bytes
        return Columns(*(pa.array(cells, pa.binary()) for cells in (kept, recipes, rests)))

    def _forms(self, schema: ValueSchema | None, prefix_bytes: int) -> Forms | None:
        try:
            if schema is not None and schema.kind == AVRO:
                return AvroForms(schema, prefix_bytes)
            if schema is not None and schema.kind == PROTOBUF:
                return ProtobufForms(schema, prefix_bytes)
        except (FormatError, MissingExtra):
            return None
        return JsonForms(self._fields, prefix_bytes)

    def _forms_of(self, schema_id: int) -> Forms | None:
        if schema_id not in self._by_id:
            schema = self._values.schema_of(schema_id)
            self._by_id[schema_id] = None if schema is None else self._forms(schema, PREFIX_BYTES)
        return self._by_id[schema_id]

    def _split(self, values: Sequence[bytes | None]) -> Iterator[tuple[Form, list[int], list[Sequence[bytes]]]]:
        """Yield each form with its rows and their texts."""
        rows_by_form: dict[int, tuple[Form, list[int], list[Sequence[bytes]]]] = {}
        for row, value in enumerate(values):
            if not value:
                continue
            schema_id = self._values.schema_id_of(value)
            forms = self._plain if schema_id is None else self._forms_of(schema_id)
            split = None if forms is None else forms.split(value)
            if split is not None:
                _, rows, texts = rows_by_form.setdefault(id(split[0]), (split[0], [], []))
                rows.append(row)
                texts.append(split[1])
        yield from rows_by_form.values()

    def _paths(self, form: Form, cells: _CellsOf) -> list[tuple[Hole, str, Kind, Cells] | None]:
        """Return path, type and cells of the typed column that each hole has, None where none can make it."""
        sources: list[tuple[Hole, str, Kind, Cells] | None] = []
        for hole in form.holes:
            column = self._columns.get(hole.path[0]) if hole.path else None
            data_type = None if column is None else _kind_at(column.kind, hole.path[1:])
            if column is None or data_type is None or data_type.name not in hole.encodings:
                sources.append(None)
                continue
            names = (column.name, *hole.path[1:])
            sources.append((hole, ".".join(names), data_type, cells.of(names)))
        return sources


def further_leaves(columns: Sequence[Column]) -> tuple[Leaf, ...]:
    """Return the leaves of typed columns in a file, as an index has them."""
    return tuple(leaf for column in columns for leaf in _leaves(column.name, column.kind, 1))


def _leaves(path: str, data_type: Kind, depth: int) -> Iterator[Leaf]:
    if data_type.name == "struct":
        for name, inner in data_type.fields.items():
            yield from _leaves(f"{path}.{name}", inner, depth + 1)
    elif data_type.name == "array":
        for leaf in _leaves(f"{path}.list.element", data_type.inner[0], depth + 2):
            yield leaf._replace(physical="")
    elif data_type.name == "map":
        for name, inner in zip(("key", "value"), data_type.inner, strict=True):
            for leaf in _leaves(f"{path}.key_value.{name}", inner, depth + 2):
                yield leaf._replace(physical="")
    else:
        yield Leaf(path, _PHYSICAL.get(data_type.name, ""), depth)


def _kind_at(data_type: Kind, path: Sequence[str]) -> Kind | None:
    for name in path:
        inner = data_type.fields.get(name) if data_type.name == "struct" else None
        if inner is None:
            return None
        data_type = inner
    return data_type if data_type.name in _PHYSICAL else None


class _CellsOf:
    """The cells of typed columns as a reader of batches finds them in a file."""

    def __init__(self, columns: Mapping[str, pa.Array]) -> None:
        self._columns = columns
        self._found: dict[tuple[str, ...], list[object]] = {}

    def of(self, names: tuple[str, ...]) -> Cells:
        """Return the cells at a path of names."""
        if names not in self._found:
            array = self._columns[names[0]]
            for name in names[1:]:
                array = pc.struct_field(array, name)
            stored = _AS_STORED.get(_PHYSICAL[kind_of_arrow(array.type).name])
            self._found[names] = (array if stored is None else array.cast(stored)).to_pylist()
        return self._found[names]


def _recipes(
    form: Form,
    rows: Sequence[int],
    texts: Sequence[Sequence[bytes]],
    columns: Sequence[tuple[Hole, str, Kind, Cells] | None],
) -> Iterator[tuple[int, bytes, bytes | None]]:
    """Yield row, recipe and rest of each value of a form that cells make, at least in part."""
    if not form.holes:
        return
    steps: list[CellStep | None] = []
    flags: list[Sequence[bool]] = []  # of each hole: rows in which a cell makes the text
    has_cell = [False] * len(rows)  # not only nulls
    for column, wanted in zip(columns, zip(*texts, strict=True), strict=True):
        step, fits = None, [False] * len(rows)
        if column is not None:
            hole, path, data_type, all_cells = column
            cells = [all_cells[row] for row in rows]
            encoding, fits = _best(hole, data_type, cells, wanted)
            step = CellStep(encoding, path, hole.null, hole.before) if encoding else None
            if not all(has_cell):
                has_cell = [
                    is_known or (fit and cell is not None)
                    for is_known, fit, cell in zip(has_cell, fits, cells, strict=True)
                ]
        steps.append(step)
        flags.append(fits)
    patterns = list(zip(*flags, strict=True))
    counted = Counter(pattern for pattern, present in zip(patterns, has_cell, strict=True) if present)
    packed = {pattern: _packed(form, steps, pattern) for pattern, _ in counted.most_common(_RECIPES_MAX)}
    for row, own, pattern, present in zip(rows, texts, patterns, has_cell, strict=True):
        if present and pattern in packed:
            left_over = [text for text, fits in zip(own, pattern, strict=True) if not fits]
            yield row, packed[pattern], encode_rest(left_over) if left_over else None


def _packed(form: Form, steps: Sequence[CellStep | None], pattern: Sequence[bool]) -> bytes:
    """Return the recipe of the values of a form in which cells make these texts."""
    recipe: list[Step] = []
    for before, step, fits in zip(form.parts, steps, pattern, strict=False):
        recipe += [before] if before else []
        recipe.append(step if fits else None)
    recipe += [form.parts[-1]] if form.parts[-1] else []
    return encode_recipe(recipe)


def _best(hole: Hole, data_type: Kind, cells: Cells, wanted: Sequence[bytes]) -> tuple[str, list[bool]]:
    """Return the encoding that makes most of the texts, empty if none makes any, and which it makes."""
    best, fitting, count = "", [False] * len(wanted), 0
    for encoding in hole.encodings[data_type.name]:
        if encoding == "#":
            encoding = _digits(wanted)
            if not encoding:
                continue
        try:
            made = encoded_cells(encoding, cells, b"" if hole.null is None else hole.null, hole.before)
        except FormatError:
            continue
        if hole.null is None and None in cells:  # a null makes nothing there
            matches = [cell is not None and one == other for cell, one, other in zip(cells, made, wanted, strict=True)]
        elif tuple(made) == tuple(wanted):
            return encoding, [True] * len(wanted)
        else:
            matches = [one == other for one, other in zip(made, wanted, strict=True)]
        if sum(matches) > count:
            best, fitting, count = encoding, matches, sum(matches)
    return best, fitting


def _digits(texts: Sequence[bytes]) -> str:
    """Return how many digits the first decimals have behind the point, as an encoding; empty if none has."""
    for text in texts[:20]:
        digits = len(text.partition(b".")[2])
        if 0 < digits <= _DIGITS_MAX and text.isascii() and b"e" not in text.lower():
            return str(digits)
    return ""
