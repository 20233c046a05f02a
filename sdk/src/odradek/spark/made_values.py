"""The column `value` of files that do not keep all values, as an expression of Spark's (format/parquet/recipes.py).

Spark reads the columns and hands recipes and cells to Python, but only where a query uses `value`: an expression that
nobody uses is not computed, nor are the columns that it alone needs read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from odradek.format.parquet.recipes import made_again
from odradek.model.kinds import VALUE_RECIPE, VALUE_REST, Kind

if TYPE_CHECKING:
    from pyspark.sql import Column

_AS_THEY_ARE = frozenset({"int", "bigint", "float", "double", "boolean", "string", "binary"})
_LOCAL_TIME = "timestamp_ntz"  # which Spark turns into a number by the session's time zone alone


def can_make_values(typed: Sequence[tuple[str, Kind]]) -> bool:
    """Return True if Spark has the cells of these typed columns as the file has them."""
    return all(
        data_type.name != _LOCAL_TIME for name, data_type in typed for _, data_type in _leaves((name,), data_type)
    )


def made_value(typed: Sequence[tuple[str, Kind]]) -> Column:
    """Return `value` of files with these typed columns, and with recipes for some values."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType

    leaves = [leaf for name, data_type in typed for leaf in _leaves((name,), data_type)]
    cells = []
    for number, (path, data_type) in enumerate(leaves):
        cell = F.col(".".join(f"`{name}`" for name in path))
        cell = (
            F.unix_micros(cell)
            if data_type.name == "timestamp"
            else F.unix_date(cell)
            if data_type.name == "date"
            else cell
        )
        cells.append(cell.alias(f"c{number}"))
    cell_numbers = {".".join(path): number for number, (path, _) in enumerate(leaves)}
    make = F.udf(_Maker(cell_numbers), BinaryType(), useArrow=False)  # with Arrow it would need pandas
    return make(F.col("value"), F.col(VALUE_RECIPE), F.col(VALUE_REST), F.struct(*cells) if cells else F.lit(None))


class _Maker:
    """Makes one value of a row.

    Args:
        cell_numbers: positions of the cells, by the path of their column.
    """

    __name__ = "value"

    def __init__(self, cell_numbers: Mapping[str, int]) -> None:
        self._cell_numbers = cell_numbers

    def __call__(self, value: Any, recipe: Any, rest_bytes: Any, cells: Any) -> bytes | None:
        if recipe is None:
            return None if value is None else bytes(value)
        texts = None if rest_bytes is None else bytes(rest_bytes)
        [made] = made_again([bytes(recipe)], [texts], [None], lambda path: [_stored(cells[self._cell_numbers[path]])])
        return made


def _leaves(path: tuple[str, ...], data_type: Kind) -> Iterator[tuple[tuple[str, ...], Kind]]:
    """Yield the columns of which recipes take cells."""
    if data_type.name == "struct":
        for name, inner in data_type.fields.items():
            yield from _leaves((*path, name), inner)
    elif data_type.name in _AS_THEY_ARE or data_type.name in ("date", "timestamp", _LOCAL_TIME):
        yield path, data_type


def _stored(cell: Any) -> Any:
    if isinstance(cell, str):
        return cell.encode()
    return bytes(cell) if isinstance(cell, bytearray) else cell
