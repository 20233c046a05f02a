"""Expressions -> Spark SQL, with types as far as they are known.

Where the two languages differ, the Spark SQL is chosen so that the result is ksqlDB's: division of whole numbers is
whole, arrays are indexed from 1 and from -1 backwards, and what is out of range is NULL.
"""

from __future__ import annotations

from odradek.sql.formats import literal
from odradek.sql.functions import FUNCTIONS, NOT_SUPPORTED, SPARK_AGGREGATES, sum_type
from odradek.sql.position import Position, SqlError
from odradek.sql.scope import Rendered, Scope, struct_field
from odradek.sql.syntax import (
    Call,
    Cast,
    ColumnRef,
    Construct,
    Expression,
    Field,
    Lambda,
    Literal,
    Name,
    Operation,
    Subscript,
)
from odradek.sql.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    TIMESTAMP,
    VARCHAR,
    SqlType,
    array_of,
    resolve_type,
    wider,
)

_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM")
_TIMES = ("DATE", "TIMESTAMP")
_UNITS = ("MILLISECONDS", "SECONDS", "MINUTES", "HOURS", "DAYS", "WEEKS", "MONTHS", "YEARS")
_TIME_SHIFTS = {"TIMESTAMPADD": 1, "TIMESTAMPSUB": -1, "DATEADD": 1, "DATESUB": -1}


def is_aggregate(expression: Expression) -> bool:
    """Return True if the expression contains an aggregate function."""
    if isinstance(expression, Call):
        name = expression.name.folded
        known = FUNCTIONS.get(name)
        if name in SPARK_AGGREGATES or (known is not None and known.is_aggregate):
            return True
    return any(is_aggregate(each) for each in parts(expression))


def parts(expression: Expression) -> list[Expression]:
    """Return the direct subexpressions of an expression."""
    if isinstance(expression, Call):
        return list(expression.arguments)
    if isinstance(expression, Operation):
        return list(expression.operands)
    if isinstance(expression, Cast | Field):
        return [expression.operand]
    if isinstance(expression, Subscript):
        return [expression.operand, expression.index]
    if isinstance(expression, Construct):
        return [each for each in expression.keys if not isinstance(each, Name)] + list(expression.values)
    if isinstance(expression, Lambda):
        return [expression.body]
    return []


def check_grouped(expression: Expression, groups: tuple[Expression, ...]) -> None:
    """Check that every column is in GROUP BY or within an aggregate. Raises SqlError at one that is not."""
    if expression in groups:
        return
    if isinstance(expression, Call):
        known = FUNCTIONS.get(expression.name.folded)
        if expression.name.folded in SPARK_AGGREGATES or (known is not None and known.is_aggregate):
            for each in expression.arguments:
                if is_aggregate(each):
                    raise SqlError("an aggregate within an aggregate is not supported", each.at)
            return
    if isinstance(expression, ColumnRef):
        if expression.name.folded in ("WINDOWSTART", "WINDOWEND"):
            return
        raise SqlError(
            f"{expression.name.text} is not in GROUP BY: group by it too, or LATEST_BY_OFFSET({expression.name.text})",
            expression.at,
        )
    for each in parts(expression):
        check_grouped(each, groups)


def condition(expression: Expression, scope: Scope, clause: str) -> str:
    """Render a condition. Raises SqlError if its type is known to be another one."""
    found = render(expression, scope)
    if found.type is not None and found.type != BOOLEAN:
        raise SqlError(f"{clause} needs a condition, not {found.type}", expression.at)
    return found.text


def render(expression: Expression, scope: Scope) -> Rendered:
    """Render one expression as Spark SQL. Raises SqlError at an unsupported part."""
    if isinstance(expression, Literal):
        return _literal(expression)
    if isinstance(expression, ColumnRef):
        return scope.resolve(expression)
    if isinstance(expression, Call):
        return _call(expression, scope)
    if isinstance(expression, Operation):
        return _operation(expression, scope)
    if isinstance(expression, Cast):
        kind = resolve_type(expression.type)
        return Rendered(f"CAST({render(expression.operand, scope).text} AS {kind.spark})", kind)
    if isinstance(expression, Field):
        place = ColumnRef(expression.name, None, expression.at)
        return struct_field(render(expression.operand, scope), expression.name.text, place)
    if isinstance(expression, Subscript):
        outer, index = render(expression.operand, scope), render(expression.index, scope)
        if outer.type is not None and outer.type.name not in ("ARRAY", "MAP"):
            raise SqlError(f"[...] needs an ARRAY or MAP, not {outer.type}", expression.at)
        kind_or_none = outer.type.inner[-1] if outer.type is not None else None
        return Rendered(f"try_element_at({outer.text}, {index.text})", kind_or_none)
    if isinstance(expression, Construct):
        return _construct(expression, scope)
    return _lambda(expression, scope)


def _literal(wanted: Literal) -> Rendered:
    if wanted.kind == "string":
        return Rendered(literal(wanted.text), VARCHAR)
    if wanted.kind == "boolean":
        return Rendered(wanted.text, BOOLEAN)
    if wanted.kind == "null":
        return Rendered("NULL", None)
    if wanted.kind in ("date", "timestamp"):
        kind = DATE if wanted.kind == "date" else TIMESTAMP
        return Rendered(f"CAST({literal(wanted.text)} AS {kind.spark})", kind)
    text = wanted.text
    if text.isdigit():
        if int(text) >= 2**63:
            raise SqlError("the number is too large for a BIGINT", wanted.at)
        return Rendered(text, INT) if int(text) < 2**31 else Rendered(f"{text}L", BIGINT)
    if float(text) > 1e300:
        raise SqlError("the number is too large for a DOUBLE", wanted.at)
    return Rendered(f"{text}D", DOUBLE)


def _operation(wanted: Operation, scope: Scope) -> Rendered:
    operator = wanted.operator
    operands = [render(each, scope) for each in wanted.operands]
    texts = [each.text for each in operands]
    first = operands[0]
    if operator == "CASE":
        return _case(wanted, operands)
    if operator in ("AND", "OR", "NOT"):
        for each, source in zip(operands, wanted.operands, strict=True):
            if each.type not in (None, BOOLEAN):
                raise SqlError(f"{operator} needs conditions, not {each.type}", source.at)
        if operator == "NOT":
            return Rendered(f"(NOT {texts[0]})", BOOLEAN)
        return Rendered(f"({texts[0]} {operator} {texts[1]})", BOOLEAN)
    if operator in ("IS NULL", "IS NOT NULL"):
        return Rendered(f"({texts[0]} {operator})", BOOLEAN)
    if operator in (*_COMPARISONS, "BETWEEN", "IN", "LIKE"):
        for each in operands[1:]:
            _check_comparable(first.type, each.type, operator, wanted.at)
        if operator == "BETWEEN":
            return Rendered(f"({texts[0]} BETWEEN {texts[1]} AND {texts[2]})", BOOLEAN)
        if operator == "IN":
            return Rendered(f"({texts[0]} IN ({', '.join(texts[1:])}))", BOOLEAN)
        if operator == "LIKE":
            escape = f" ESCAPE {texts[2]}" if len(texts) == 3 else ""
            return Rendered(f"({texts[0]} LIKE {texts[1]}{escape})", BOOLEAN)
        return Rendered(f"({texts[0]} {operator} {texts[1]})", BOOLEAN)
    if len(operands) == 1:
        _check_numbers(operands, wanted)
        return Rendered(f"(- {texts[0]})", first.type)
    if operator == "||" or (operator == "+" and VARCHAR in (first.type, operands[1].type)):
        return Rendered(f"concat({texts[0]}, {texts[1]})", VARCHAR)
    _check_numbers(operands, wanted)
    left, right = first.type, operands[1].type
    kind = wider(left, right) if left is not None and right is not None else None
    if kind is not None and kind.name == "DECIMAL":
        kind = None  # precision and scale by Spark's rules
    if operator == "/" and kind is not None and kind.is_integer:
        return Rendered(f"CAST({texts[0]} DIV {texts[1]} AS {kind.spark})", kind)
    return Rendered(f"({texts[0]} {operator} {texts[1]})", kind)


def _case(wanted: Operation, operands: list[Rendered]) -> Rendered:
    rest = list(operands)
    text = "CASE"
    if wanted.has_operand:
        text += f" {rest.pop(0).text}"
    default = rest.pop() if wanted.has_default else None
    values: list[Rendered] = []
    for when, then in zip(rest[::2], rest[1::2], strict=True):
        text += f" WHEN {when.text} THEN {then.text}"
        values.append(then)
    if default is not None:
        text += f" ELSE {default.text}"
        values.append(default)
    return Rendered(f"{text} END", _common(values))


def _common(values: list[Rendered]) -> SqlType | None:
    """Return the common type; NULL literals fit any type."""
    kinds = [each.type for each in values if each.text != "NULL"]
    found = kinds[0] if kinds else None
    for kind in kinds[1:]:
        if found is None or kind is None:
            return None
        found = wider(found, kind)
    return found


def _check_numbers(operands: list[Rendered], wanted: Operation) -> None:
    for each, source in zip(operands, wanted.operands, strict=True):
        if each.type is not None and not each.type.is_number:
            raise SqlError(f"{wanted.operator} needs numbers, not {each.type}", source.at)


def _check_comparable(left: SqlType | None, right: SqlType | None, operator: str, at: Position) -> None:
    if left is None or right is None or left.name == right.name or (left.is_number and right.is_number):
        return
    if {left.name, right.name} <= {*_TIMES, "VARCHAR"}:  # a time may be compared with its text
        return
    raise SqlError(f"{operator} cannot compare {left} with {right}", at)


def _construct(wanted: Construct, scope: Scope) -> Rendered:
    values = [render(each, scope) for each in wanted.values]
    if wanted.kind == "ARRAY":
        kind = _common(values)
        return Rendered(f"array({', '.join(each.text for each in values)})", None if kind is None else array_of(kind))
    if wanted.kind == "STRUCT":
        names = [each.text for each in wanted.keys if isinstance(each, Name)]
        fields = ", ".join(f"{literal(name)}, {value.text}" for name, value in zip(names, values, strict=True))
        kinds = [each.type for each in values if each.type is not None]
        known = SqlType("STRUCT", inner=tuple(kinds), fields=tuple(names)) if len(kinds) == len(values) else None
        return Rendered(f"named_struct({fields})", known)
    keys = [render(each, scope) for each in wanted.keys if not isinstance(each, Name)]
    pairs = ", ".join(f"{key.text}, {value.text}" for key, value in zip(keys, values, strict=True))
    key_type, value_type = _common(keys), _common(values)
    kind = SqlType("MAP", inner=(key_type, value_type)) if key_type is not None and value_type is not None else None
    return Rendered(f"map({pairs})", kind)


def _lambda(wanted: Lambda, scope: Scope) -> Rendered:
    scope.parameters.extend(each.folded for each in wanted.parameters)
    try:
        body = render(wanted.body, scope)
    finally:
        del scope.parameters[-len(wanted.parameters) :]
    names = ", ".join(each.text for each in wanted.parameters)
    return Rendered(f"({names}) -> {body.text}", body.type)


def _call(wanted: Call, scope: Scope) -> Rendered:
    name = wanted.name.folded
    if name in NOT_SUPPORTED:
        raise SqlError(NOT_SUPPORTED[name], wanted.at)
    if wanted.distinct:
        if name == "COUNT" and len(wanted.arguments) == 1:
            raise SqlError(
                "COUNT(DISTINCT x) would store all values forever: use COUNT_DISTINCT(x), approximate", wanted.at
            )
        raise SqlError(f"{wanted.name.text}(DISTINCT ...) is not supported", wanted.at)
    if wanted.star:
        if name != "COUNT":
            raise SqlError(f"{wanted.name.text}(*) is not supported: only COUNT(*)", wanted.at)
        return Rendered("count(1)", BIGINT)
    if name in _TIME_SHIFTS:
        return _time_shift(wanted, scope)
    arguments = [render(each, scope) for each in wanted.arguments]
    texts = [each.text for each in arguments]
    known = FUNCTIONS.get(name)
    if known is None:
        return _sparks_own(wanted, texts)
    if not known.least <= len(texts) <= known.most:
        wish = str(known.least) if known.least == known.most else f"{known.least} to {known.most}"
        raise SqlError(f"{name} takes {wish if known.most < 99 else f'at least {known.least}'} arguments", wanted.at)
    kinds = [each.type for each in arguments]
    if name in ("SUM", "AVG", "STDDEV_SAMP") and kinds[0] is not None and not kinds[0].is_number:
        raise SqlError(f"{name} needs numbers, not {kinds[0]}", wanted.arguments[0].at)
    kind = sum_type(kinds[0]) if name == "SUM" else known.result_type(kinds)
    if name in ("COALESCE", "IFNULL", "GREATEST", "LEAST"):
        kind = _common(arguments)
    if name in ("CEIL", "FLOOR") and kinds[0] is not None and kinds[0].name != "DECIMAL":
        kind = BIGINT
    if name == "ROUND" and kinds[0] is not None and (kinds[0] == DOUBLE or kinds[0].is_integer):
        kind = kinds[0]
    if name == "ABS" and kinds[0] is not None and not kinds[0].is_number:
        raise SqlError(f"ABS needs a number, not {kinds[0]}", wanted.arguments[0].at)
    if name == "REGEXP_EXTRACT" and len(texts) == 3:
        return Rendered(f"regexp_extract({texts[1]}, {texts[0]}, {texts[2]})", VARCHAR)
    order = ""
    if "{order}" in known.template:
        first = scope.bounds[0].quoted
        order = f"struct({first}.__offset, {first}.__partition)"
    if known.template.endswith("({*})"):
        return Rendered(known.template.replace("{*}", ", ".join(texts)), kind)
    return Rendered(_filled(known.template, texts, order), kind)


def _filled(template: str, texts: list[str], order: str) -> str:
    """Fill in the template's {0}, {1} ...; inserted text is not searched again."""
    pieces = template.split("{")
    filled = [pieces[0]]
    for piece in pieces[1:]:
        number, _, rest = piece.partition("}")
        filled.append((order if number == "order" else texts[int(number)]) + rest)
    return "".join(filled)


def _time_shift(wanted: Call, scope: Scope) -> Rendered:
    """Render TIMESTAMPADD(unit, n, time) and the like, in which the unit is a word, not a column."""
    name = wanted.name.folded
    if len(wanted.arguments) != 3 or not isinstance(wanted.arguments[0], ColumnRef):
        raise SqlError(f"write {name}(unit, number, time)", wanted.at)
    unit = wanted.arguments[0].name
    folded = unit.folded if unit.folded.endswith("S") else f"{unit.folded}S"
    if folded not in _UNITS:
        raise SqlError(f"unknown unit of time {unit.text}: {', '.join(_UNITS)}", unit.at)
    number, time = (render(each, scope) for each in wanted.arguments[1:])
    amount = number.text if _TIME_SHIFTS[name] > 0 else f"(- {number.text})"
    text = f"timestampadd({folded.removesuffix('S')}, {amount}, {time.text})"
    if name.startswith("DATE"):
        return Rendered(f"CAST({text} AS DATE)", DATE)
    return Rendered(text, TIMESTAMP)


def _sparks_own(wanted: Call, texts: list[str]) -> Rendered:
    """Render a function that only Spark has, whose type is not known here."""
    name = wanted.name.text
    if not name.replace("_", "").isalnum() or not name.isascii():
        raise SqlError(f"unknown function {name}", wanted.name.at)
    return Rendered(f"{name.lower()}({', '.join(texts)})", _SPARK_TYPES.get(name.upper()))


_SPARK_TYPES = {
    "HOUR": INT, "MINUTE": INT, "SECOND": INT, "YEAR": INT, "MONTH": INT, "DAY": INT, "DAYOFWEEK": INT,
    "LENGTH": INT, "SHA1": VARCHAR, "MD5": VARCHAR, "REVERSE": VARCHAR, "DATE_FORMAT": VARCHAR, "TO_JSON": VARCHAR,
    "TIMESTAMP_MILLIS": TIMESTAMP, "TO_TIMESTAMP": TIMESTAMP, "TO_DATE": DATE, "MEDIAN": DOUBLE, "MEAN": DOUBLE,
    "STDDEV": DOUBLE, "VARIANCE": DOUBLE, "APPROX_COUNT_DISTINCT": BIGINT, "COUNT_IF": BIGINT, "STARTSWITH": BOOLEAN,
    "ENDSWITH": BOOLEAN, "CONTAINS": BOOLEAN, "HEX": VARCHAR, "LEFT": VARCHAR,
    "RIGHT": VARCHAR, "DATE_TRUNC": TIMESTAMP,
}  # fmt: skip
