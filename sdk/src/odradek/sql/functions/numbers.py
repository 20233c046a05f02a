"""Functions of numbers, of nulls, and of bytes as numbers.

Rounding goes half up in the positive direction, as Java's Math.round: -1.5 is rounded to -1.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.sql.functions.sameness import is_one_of
from odradek.sql.functions.signature import ANY, Function, Mismatch, Types, template
from odradek.sql.functions.times import time_of
from odradek.sql.types import BIGINT, DOUBLE, INT, VARCHAR, Rendered, SqlType, decimal_of, wider


def common(kinds: Types) -> SqlType | None:
    """Return the type that holds the values of all."""
    found: SqlType | None = None
    for kind in kinds:
        if kind is not None:
            if found is not None and wider(found, kind) is None:
                raise Mismatch(f"the arguments are of different types: {found} and {kind}", 0)
            found = wider(found, kind)
    return found


def as_type(value: Rendered, kind: SqlType | None) -> str:
    """Return a value as another type that holds it."""
    return value.text if kind is None or value.type == kind else f"CAST({value.text} AS {kind.spark})"


def _same(name: str, spark: str) -> Function:
    """Return a function of at least one argument, all brought to their common type."""

    def render(arguments: Sequence[Rendered]) -> Rendered:
        arguments = _texts_as_times(arguments)
        kind = common([each.type for each in arguments])
        return Rendered(f"{spark}({', '.join(as_type(each, kind) for each in arguments)})", kind)

    return Function(name, 1, ANY, render)


def _extreme(name: str) -> Function:
    """GREATEST and LEAST: of zeros the one with, or without, a sign is found."""
    spark, preferred, other = ("greatest", "", "-") if name == "GREATEST" else ("least", "-", "")
    of_all = _same(name, spark)

    def render(arguments: Sequence[Rendered]) -> Rendered:
        found = of_all.render(arguments)
        if found.type != DOUBLE or len(arguments) == 1:
            return found
        texts = ", ".join(f"CAST({as_type(each, DOUBLE)} AS STRING)" for each in arguments)
        # To Spark's optimizer zeros are one: it must not see two of them.
        zero = f"CAST(concat(IF('{preferred}0.0' IN ({texts}), '{preferred}', '{other}'), '0.0') AS DOUBLE)"
        return Rendered(f"IF({found.text} = 0, {zero}, {found.text})", DOUBLE)

    return Function(name, 1, ANY, render)


def _texts_as_times(arguments: Sequence[Rendered]) -> Sequence[Rendered]:
    """Return the arguments with the texts among times of one type read as such."""
    kinds = {each.type for each in arguments if each.type is not None and each.type != VARCHAR}
    if len(kinds) != 1:
        return arguments
    [kind] = kinds
    if not kind.is_time:
        return arguments
    return [Rendered(time_of(each.text, kind), kind) if each.type == VARCHAR else each for each in arguments]


def _round(arguments: Sequence[Rendered]) -> Rendered:
    value = arguments[0]
    kind = value.type or DOUBLE
    if len(arguments) == 1:
        if kind.is_integer:
            return Rendered(value.text, kind)
        if kind.name == "DECIMAL":
            whole = decimal_of(max(1, kind.precision - kind.scale + (1 if kind.scale else 0)), 0)
            return Rendered(f"CAST(floor({value.text} + 0.5BD) AS {whole.spark})", whole)
        return Rendered(f"CAST(floor({value.text} + 0.5D) AS BIGINT)", BIGINT)
    scale = arguments[1].text
    if kind.is_integer:
        return Rendered(f"CAST(round({value.text}, {scale}) AS {kind.spark})", kind)
    power = f"CAST(pow(10, {scale}) AS DECIMAL(20, 9))"
    # Half down where the value is negative: towards zero is up.
    exact = f"CAST(- {value.text} AS DECIMAL(30, 12))"
    down = f"(- ceil({exact} * {power} - 0.5BD) / {power})"
    up = f"round({value.text}, {scale})"
    up, down = (f"CAST({each} AS {kind.spark})" for each in (up, down))
    return Rendered(f"IF({value.text} < 0, coalesce({down}, {up}), {up})", kind)


def _trunc(arguments: Sequence[Rendered]) -> Rendered:
    value = arguments[0]
    kind = value.type or DOUBLE
    if len(arguments) == 1:
        if kind.is_integer:
            return Rendered(value.text, kind)
        result = decimal_of(max(1, kind.precision - kind.scale), 0) if kind.name == "DECIMAL" else BIGINT
        return (
            Rendered(f"CAST(CAST({value.text} AS DECIMAL(38, 12)) AS BIGINT)", BIGINT)
            if result == BIGINT
            else (
                Rendered(
                    f"CAST(IF({value.text} < 0, ceil({value.text}), floor({value.text})) AS {result.spark})", result
                )
            )
        )
    power = f"CAST(pow(10, {arguments[1].text}) AS DECIMAL(20, 9))"
    exact = f"(CAST({value.text} AS DECIMAL(30, 12)) * {power})"
    return Rendered(f"CAST(IF({value.text} < 0, ceil({exact}), floor({exact})) / {power} AS {kind.spark})", kind)


def _whole(name: str) -> Function:
    """CEIL and FLOOR: the type stays."""

    def render(arguments: Sequence[Rendered]) -> Rendered:
        value = arguments[0]
        kind = value.type or DOUBLE
        return Rendered(f"CAST({name.lower()}({value.text}) AS {kind.spark})", kind)

    return Function(name, 1, 1, render, ("number",))


def _logarithm(arguments: Sequence[Rendered]) -> Rendered:
    """LN, and LOG, which without a base is the natural one in ksqlDB, too."""
    value = f"CAST({arguments[-1].text} AS DOUBLE)"
    of = f"CASE WHEN {value} IS NULL THEN NULL WHEN {value} < 0 THEN double('NaN') WHEN {value} = 0 "
    if len(arguments) == 1:
        return Rendered(f"({of}THEN double('-Infinity') ELSE ln({value}) END)", DOUBLE)
    base = f"CAST({arguments[0].text} AS DOUBLE)"
    bad = f"{base} <= 0 OR {base} = 1"
    return Rendered(
        f"(CASE WHEN {base} IS NULL OR {value} IS NULL THEN NULL WHEN {bad} OR {value} < 0 THEN double('NaN') "
        f"WHEN {value} = 0 THEN double('-Infinity') ELSE ln({value}) / ln({base}) END)",
        DOUBLE,
    )


def _geo_distance(arguments: Sequence[Rendered]) -> Rendered:
    """Return the great circle's length by haversines; in this order of operations its last digits are ksqlDB's."""
    one_lat, one_lon, other_lat, other_lon = (f"CAST({each.text} AS DOUBLE)" for each in arguments[:4])
    half = f"pow(sin(radians({other_lat} - {one_lat}) / 2), 2)"
    across = f"pow(sin(radians({other_lon} - {one_lon}) / 2), 2) * cos(radians({one_lat})) * cos(radians({other_lat}))"
    is_place = f"greatest(abs({one_lat}), abs({other_lat})) <= 90 AND greatest(abs({one_lon}), abs({other_lon})) <= 180"
    radius = "6371.0D"
    if len(arguments) == 5:
        unit = f"lower({arguments[4].text})"
        miles = f"{unit} LIKE 'mi%'"
        radius = f"IF({unit} IS NULL, 6371.0D, CASE WHEN {miles} THEN 3959.0D WHEN {unit} LIKE 'k%' THEN 6371.0D END)"
    return Rendered(f"IF({is_place}, 2 * asin(sqrt({half} + {across})) * {radius}, NULL)", DOUBLE)


def _double(name: str, spark: str = "") -> Function:
    return template(name, f"{spark or name.lower()}(CAST({{0}} AS DOUBLE))", 1, 1, DOUBLE, "number")


def whole_from_bytes(raw: str, size: int) -> str:
    """Return big-endian bytes as a whole number of 4 or 8 bytes."""
    number = f"CAST(conv(hex({raw}), 16, -10) AS BIGINT)"
    if size == 8:
        return number
    return f"CAST(IF({number} > 2147483647, {number} - 4294967296, {number}) AS INT)"


def _from_bytes(name: str, kind: SqlType, size: int) -> Function:
    def render(arguments: Sequence[Rendered]) -> Rendered:
        raw = arguments[0].text
        turned = "concat(" + ", ".join(f"substring({raw}, {n}, 1)" for n in range(size, 0, -1)) + ")"
        order = arguments[1].text if len(arguments) == 2 else "'BIG_ENDIAN'"

        def read(data: str) -> str:
            return f"ksql_double_from_bytes({data})" if kind == DOUBLE else whole_from_bytes(data, size)

        return Rendered(
            f"(CASE WHEN length({raw}) <> {size} THEN NULL WHEN upper({order}) = 'BIG_ENDIAN' THEN {read(raw)} "
            f"WHEN upper({order}) = 'LITTLE_ENDIAN' THEN {read(turned)} END)",
            kind,
        )

    return Function(name, 1, 2, render, ("bytes", "text"))


def _nullif(arguments: Sequence[Rendered]) -> Rendered:
    value, other = (each.text for each in arguments)
    if arguments[0].type == DOUBLE:
        return Rendered(f"IF({is_one_of(value, [other])}, NULL, {value})", DOUBLE)
    return Rendered(f"nullif({value}, {other})", arguments[0].type)


NUMBERS = [
    template("ABS", "abs({0})", 1, 1, 0, "number"),
    *(_double(name) for name in ("ACOS", "ASIN", "ATAN", "CBRT", "COS", "COSH", "COT", "DEGREES", "EXP", "RADIANS")),
    *(_double(name) for name in ("SIN", "SINH", "SQRT", "TAN", "TANH")),
    Function("LN", 1, 1, _logarithm, ("number",)),
    template("ATAN2", "atan2(CAST({0} AS DOUBLE), CAST({1} AS DOUBLE))", 2, 2, DOUBLE, "number"),
    _whole("CEIL"),
    _whole("FLOOR"),
    Function("ROUND", 1, 2, _round, ("number", "INT")),
    Function("TRUNC", 1, 2, _trunc, ("number", "INT")),
    Function("LOG", 1, 2, _logarithm, ("number",)),
    Function("GEO_DISTANCE", 4, 5, _geo_distance, ("number", "number", "number", "number", "text")),
    _extreme("GREATEST"),
    _extreme("LEAST"),
    template("PI", "pi()", 0, 0, DOUBLE),
    template("POWER", "power(CAST({0} AS DOUBLE), CAST({1} AS DOUBLE))", 2, 2, DOUBLE, "number"),
    template("RANDOM", "rand()", 0, 0, DOUBLE),
    template("SIGN", "CAST(sign({0}) AS INT)", 1, 1, INT, "number"),
    # nulls
    _same("COALESCE", "coalesce"),
    _same("IFNULL", "coalesce"),
    Function("NULLIF", 2, 2, _nullif),
    template("AS_VALUE", "{0}", 1, 1, 0),
    # bytes
    _from_bytes("INT_FROM_BYTES", INT, 4),
    _from_bytes("BIGINT_FROM_BYTES", BIGINT, 8),
    _from_bytes("DOUBLE_FROM_BYTES", DOUBLE, 8),
]
