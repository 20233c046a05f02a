"""A user's own functions (functions/own.py) in Spark: Arrow batches in and out. The code travels with the query."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from odradek.sql.planning.own_functions import Own
from odradek.sql.types import SqlType, array_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PLAIN = {
    "VARCHAR": pa.string(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "TIME": pa.int32(),  # ms of the day
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    "BYTES": pa.binary(),
}


def register_own(session: SparkSession, name: str, own: Own) -> None:
    """Make a function known to a session."""
    from pyspark import cloudpickle
    from pyspark.sql.pandas.functions import arrow_udf

    cloudpickle.register_pickle_by_value(own.module)  # type: ignore[no-untyped-call]  # workers need not find it
    returns = array_of(own.returns) if own.kind == "table" else own.returns
    function: Any = arrow_udf
    session.udf.register(name, function(_wrapped(own, arrow_type(returns)), returns.spark))


def arrow_type(kind: SqlType) -> pa.DataType:
    """Return a type of SQL in Arrow."""
    if kind.name == "DECIMAL":
        return pa.decimal128(kind.precision, kind.scale)
    if kind.name == "ARRAY":
        return pa.list_(arrow_type(kind.inner[0]))
    if kind.name == "MAP":
        return pa.map_(arrow_type(kind.inner[0]), arrow_type(kind.inner[1]))
    if kind.name == "STRUCT":
        return pa.struct([(n, arrow_type(each)) for n, each in zip(kind.fields, kind.inner, strict=True)])
    return _PLAIN[kind.name]


def _wrapped(own: Own, returns: pa.DataType) -> Callable[..., pa.Array]:
    """Return a function of columns. It names nothing of this package: a worker gets it by value."""
    code, by_row, kind = own.code, own.by_row, own.kind

    def group(rows: pa.Array) -> Any:
        return code(*[rows.field(number) for number in range(rows.type.num_fields)])

    def one(row: tuple[Any, ...]) -> Any:
        try:
            return code(*row)
        except Exception:  # as an expression that cannot be computed
            return None

    def columns(*arrays: pa.Array) -> pa.Array:
        import pyarrow

        if kind == "aggregate":
            found: Any = [None if each is None else group(each.values) for each in arrays[0]]
        elif by_row:
            found = [one(row) for row in zip(*(each.to_pylist() for each in arrays), strict=True)]
        else:
            found = code(*arrays)
        if isinstance(found, pyarrow.ChunkedArray):
            found = found.combine_chunks()
        return found.cast(returns) if isinstance(found, pyarrow.Array) else pyarrow.array(found, type=returns)

    return columns
