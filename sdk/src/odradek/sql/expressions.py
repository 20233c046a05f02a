"""Expressions -> Spark SQL, with types as far as they are known.

Where the two languages differ, the Spark SQL is chosen so that the result is ksqlDB's: division of whole numbers is
whole, DECIMALs have ksqlDB's precision and scale, arrays are indexed from 1 and from -1 backwards, and what is out of
range is NULL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal

from odradek.sql.conversions import (
    aligned,
    cast,
    comparable,
    compared,
    converted,
    distinct_numbers,
    from_text,
    incomparable,
)
from odradek.sql.functions import FUNCTIONS, SPARK_AGGREGATES, SPARK_TYPES, Function
from odradek.sql.functions.aggregates import COLLECTED, COLLECTED_MAX, ORDER
from odradek.sql.functions.bindings import LONG, Bindings, once
from odradek.sql.functions.failures import Meaning, failure, is_caught, is_given, unseen, unseen_test
from odradek.sql.functions.operators import added_texts, calculated, concatenated
from odradek.sql.functions.sameness import is_one_of
from odradek.sql.functions.signature import ANY, Mismatch, literal_of
from odradek.sql.functions.signature import text_of as literal
from odradek.sql.functions.times import SHIFTS, UNITS, shifted
from odradek.sql.functions.within_lambdas import NotInLambdas, within_lambda
from odradek.sql.planning.alike import is_alike, is_literal, is_other_than_zero
from odradek.sql.position import SqlError
from odradek.sql.scope import Scope, struct_field
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
    NEVER,
    TIME,
    TIMESTAMP,
    VARCHAR,
    Rendered,
    SqlType,
    array_of,
    decimal_of,
    map_of,
    quote,
    resolve_type,
    struct_of,
    wider,
)

_PREDICATES = ("=", "<>", "<", "<=", ">", ">=", "BETWEEN", "IN")
_TIMES = {"date": DATE, "timestamp": TIMESTAMP, "time": TIME}
_NOT_SUPPORTED = {
    "GROUPING": "GROUPING is not supported",
    "WINDOW": "use WINDOW TUMBLING (SIZE ...)",
    "SESSION_WINDOW": "use WINDOW SESSION (gap)",
}
_ROWTIME = "ROWTIME"
_LARGE = 10  # an expression of more parts than this is rendered apart from the one around it
_LAMBDA = re.compile(r"\(?p\d+_\d+(, p\d+_\d+)*\)? -> ")


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


def condition(expression: Expression, scope: Scope, clause: str) -> str:
    """Render a condition. Raises SqlError if its type is known to be another one."""
    if isinstance(expression, Operation) and scope.replaced(expression) is None:
        if expression.operator in ("AND", "OR"):
            one, other = (condition(each, scope, expression.operator) for each in expression.operands)
            return f"({one} {expression.operator} {other})"
        if expression.operator in _PREDICATES:  # NULL lets nothing pass; and without COALESCE Spark can push it down
            return _predicate(expression, [render(each, scope) for each in expression.operands])
    found = render(expression, scope)
    if found.type is not None and found.type != BOOLEAN:
        wish = "conditions" if clause in ("AND", "OR") else "a condition"
        raise SqlError(f"{clause} needs {wish}, not {found.type}", expression.at)
    return found.text


def filtering(expression: Expression, scope: Scope, clause: str) -> str:
    """Render WHERE or HAVING: an error in any part of it lets nothing pass. Raises SqlError as `condition`."""
    if isinstance(expression, Operation) and expression.operator == "AND":
        one, other = (filtering(each, scope, "AND") for each in expression.operands)
        return f"({one} AND {other})"
    with _large_parts(expression, scope) as bindings:
        found = condition(expression, scope, clause)
        wrong = unseen_test(expression, _meaning(scope))
    return bindings.bound(found if wrong == NEVER else f"(NOT {wrong} AND {found})")


def computed(expression: Expression, scope: Scope) -> Rendered:
    """Render what is computed by itself, such as a column or a key: an error in any part of it makes it NULL.

    Raises SqlError at an unsupported part.
    """
    with _large_parts(expression, scope) as bindings:
        found = render(expression, scope)
        wrong = unseen(expression, _meaning(scope))
    return replace(found, text=bindings.bound(found.text if wrong == NEVER else f"IF({wrong}, NULL, {found.text})"))


def erring_groups(groups: Sequence[Expression], scope: Scope) -> list[tuple[Expression, Rendered]]:
    """Return the GROUP BY expressions in which an error would go unseen, as what they are computed to."""
    meaning = _meaning(scope)
    found = [(each, computed(each, scope)) for each in groups if _is_large(each) or unseen(each, meaning) != NEVER]
    return [(each, rendered) for each, rendered in found if rendered.text != render(each, scope).text]


@contextmanager
def _large_parts(expression: Expression, scope: Scope) -> Iterator[Bindings]:
    """Render the large parts of an expression apart; within the context, a mark stands for each."""
    bindings, before = Bindings(), len(scope.replacements)
    meaning = _meaning(scope)
    try:
        is_known = meaning.known(expression) is not None
        for part, is_alone in [] if is_known else _parts_of(expression):
            if _is_large(part):
                is_alone |= meaning.known(part) is not None
                found, fails = (computed(part, scope), NEVER) if is_alone else _with_failure(part, scope)
                mark = bindings.add(found.text)
                if fails != NEVER:
                    found, fails, mark = replace(found, text=f"{mark}.v"), f"{mark}.e", f"{mark}.v"
                scope.replacements.append((part, Rendered(mark, found.type, fails)))
        yield bindings
    finally:
        del scope.replacements[before:]


def _with_failure(expression: Expression, scope: Scope) -> tuple[Rendered, str]:
    """Return an expression as a struct of its value and whether it is an error; as its value, if it cannot be one."""
    with _large_parts(expression, scope) as bindings:
        found, fails, value = _and_failure(expression, scope)
    text = found.text if fails == NEVER else value.bound(f"struct({found.text} AS v, {fails} AS e)")
    return replace(found, text=bindings.bound(value.bound(text))), fails


def _and_failure(expression: Expression, scope: Scope) -> tuple[Rendered, str, Bindings]:
    """Render an expression and where it is an error; a mark stands for it in both if it is long."""
    found, value, meaning = render(expression, scope), Bindings(), _meaning(scope)
    if len(found.text) <= LONG:
        return found, failure(expression, meaning), value
    marked = replace(found, text=value.add(found.text))
    itself = replace(meaning, render=lambda each: marked if each is expression else render(each, scope))
    return marked, failure(expression, itself), value


def _parts_of(expression: Expression) -> list[tuple[Expression, bool]]:
    """Return the parts that can be rendered apart, and of each, whether an error in it ends there."""
    if isinstance(expression, Call):
        return [(each, is_caught(each)) for each in expression.arguments if not isinstance(each, Lambda)]
    if isinstance(expression, Lambda):
        return []
    is_alone = isinstance(expression, Cast | Construct)
    is_call = isinstance(expression, Operation) and expression.operator == "||"
    return [(each, is_alone or (is_call and is_caught(each))) for each in parts(expression)]


def _is_large(expression: Expression) -> bool:
    left, found = [expression], 0
    while left and found <= _LARGE:
        found += 1
        left += parts(left.pop())
    return found > _LARGE


def _meaning(scope: Scope) -> Meaning:
    def known(expression: Expression) -> str | None:
        replaced = scope.replaced(expression)
        if replaced is not None:
            return replaced.fails
        is_over_rows = isinstance(expression, Call) and _is_over_rows(expression.name.folded)
        return NEVER if is_over_rows else None

    return Meaning(
        lambda each: render(each, scope),
        lambda each: _argument(each, scope),
        lambda one, other: incomparable(render(one, scope), render(other, scope)),
        known,
        lambda name: name in FUNCTIONS or name in SHIFTS,
    )


def _argument(wanted: Expression, scope: Scope) -> Rendered:
    return (computed if is_caught(wanted) else render)(wanted, scope)


def _is_over_rows(name: str) -> bool:
    """Return True for an aggregate or table function."""
    known = FUNCTIONS.get(name)
    return name in SPARK_AGGREGATES if known is None else known.kind != "scalar"


def render(expression: Expression, scope: Scope) -> Rendered:
    """Render a part of an expression as Spark SQL, in which only NULL stands for an error.

    Raises SqlError at an unsupported part.
    """
    replaced = scope.replaced(expression)
    if replaced is not None:
        return replaced
    if isinstance(expression, Literal):
        return _literal(expression)
    if isinstance(expression, ColumnRef):
        return scope.resolve(expression)
    if isinstance(expression, Call):
        return _call(expression, scope)
    if isinstance(expression, Operation):
        return _operation(expression, scope)
    if isinstance(expression, Cast):
        kind = resolve_type(expression.type, scope.types)
        return cast(computed(expression.operand, scope), kind, expression.at)
    if isinstance(expression, Field):
        place = ColumnRef(expression.name, None, expression.at)
        return struct_field(render(expression.operand, scope), expression.name.text, place)
    if isinstance(expression, Subscript):
        return _subscript(expression, scope)
    if isinstance(expression, Construct):
        return _construct(expression, scope)
    return _lambda(expression, scope, ())


def _literal(wanted: Literal) -> Rendered:
    if wanted.kind == "string":
        return Rendered(literal(wanted.text), VARCHAR)
    if wanted.kind == "boolean":
        return Rendered(wanted.text, BOOLEAN)
    if wanted.kind == "null":
        return Rendered("NULL", None)
    if wanted.kind in _TIMES:
        kind = _TIMES[wanted.kind]
        return Rendered(from_text(literal(wanted.text), kind), kind)
    text = wanted.text
    if text.isdigit():
        if int(text) < 2**31:
            return Rendered(text, INT)
        if int(text) < 2**63:
            return Rendered(f"{text}L", BIGINT)
        if len(text) > 38:
            raise SqlError("the number is too large: a DECIMAL has at most 38 digits", wanted.at)
        return Rendered(f"{text}BD", decimal_of(len(text), 0))
    if "e" in text.lower():
        if float(text) == float("inf"):
            raise SqlError("the number is too large for a DOUBLE", wanted.at)
        return Rendered(f"{text}D", DOUBLE)
    written = Decimal(text).as_tuple()
    scale = -int(written.exponent)
    return Rendered(f"{text}BD", decimal_of(max(len(written.digits), scale, 1), max(scale, 0)))


def _subscript(wanted: Subscript, scope: Scope) -> Rendered:
    outer, index = render(wanted.operand, scope), render(wanted.index, scope)
    if outer.type is not None and outer.type.name not in ("ARRAY", "MAP"):
        raise SqlError(f"[...] needs an ARRAY or MAP, not {outer.type}", wanted.at)
    is_array = outer.type is not None and outer.type.name == "ARRAY"
    if is_array and index.type is not None and not index.type.is_integer:
        raise SqlError(f"an ARRAY is indexed by a whole number, not {index.type}", wanted.index.at)
    position = index.text
    if is_array and not (position.isdigit() and int(position) > 0):
        position = f"nullif(CAST({position} AS INT), 0)"
    kind = outer.type.inner[-1] if outer.type is not None else None
    return Rendered(f"try_element_at({outer.text}, {position})", kind)


def _operation(wanted: Operation, scope: Scope) -> Rendered:
    operator = wanted.operator
    is_call = operator == "||"  # of CONCAT
    operands = [(computed if is_call and is_caught(each) else render)(each, scope) for each in wanted.operands]
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
    if operator == "LIKE":
        comparable(first, operands[1], operator, wanted.at)
        escape = f" ESCAPE {texts[2]}" if len(texts) == 3 else ""
        return Rendered(f"({texts[0]} LIKE {texts[1]}{escape})", BOOLEAN)
    if operator in _PREDICATES:
        return Rendered(f"coalesce({_predicate(wanted, operands)}, FALSE)", BOOLEAN)
    if operator == "IS DISTINCT FROM":
        one, other = comparable(first, operands[1], operator, wanted.at)
        if DOUBLE in (first.type, operands[1].type):
            return Rendered(distinct_numbers(first, operands[1]), BOOLEAN)
        return Rendered(f"({one} {operator} {other})", BOOLEAN)
    if len(operands) == 1:
        _check_numbers(operands, wanted)
        return Rendered(f"(- {texts[0]})", first.type)
    if operator == "||":
        return concatenated(operands)
    if operator == "+" and VARCHAR in (first.type, operands[1].type):
        return added_texts(operands, [is_given(each) for each in wanted.operands])
    _check_numbers(operands, wanted)
    return calculated(operator, first, operands[1], may_be_zero=not is_other_than_zero(wanted.operands[1]))


def _predicate(wanted: Operation, operands: list[Rendered]) -> str:
    """Return a comparison, which is NULL where an operand is; in ksqlDB it is FALSE there."""
    operator, first = wanted.operator, operands[0]
    if operator == "IN":
        return _in(operands, wanted)
    if any(isinstance(each, Literal) and each.kind == "null" for each in wanted.operands):
        raise SqlError("a comparison with NULL is never TRUE: use IS NULL or IS NOT NULL", wanted.at)
    unordered = next((each.type for each in operands if each.type is not None and each.type.inner), None)
    if unordered is not None and operator not in ("=", "<>"):
        raise SqlError(f"{operator} needs values that have an order, not {unordered}", wanted.at)
    one, other = compared(first, operands[1], operator, wanted.at)
    if operator == "BETWEEN":
        high = compared(first, operands[2], operator, wanted.at)[1]
        return f"({one} BETWEEN {other} AND {high})"
    return f"({one} {operator} {other})"


def _in(operands: list[Rendered], wanted: Operation) -> str:
    first, *others = operands
    if first.type == VARCHAR:
        texts = [each.text if each.type in (None, VARCHAR) else converted(each.text, each.type, VARCHAR)
                 for each in others]  # fmt: skip
        for each, written in zip(others, wanted.operands[1:], strict=True):
            if each.type not in (None, VARCHAR) and (each.type.inner or not is_literal(written)):
                raise SqlError(f"IN cannot compare VARCHAR with {each.type}: use CAST", written.at)
    elif first.type is not None and first.type.inner:
        for each, written in zip(others, wanted.operands[1:], strict=True):
            if each.type is not None and not is_alike(first.type, each.type, written):
                raise SqlError(f"IN cannot compare {first.type} with {each.type}", written.at)
        pairs = [_brought_together(first, each, wanted) for each in others]
        return f"({' OR '.join(f'{one} = {other}' for one, other in pairs)})"
    else:
        texts = [comparable(first, each, "IN", wanted.at)[1] for each in others]
        if first.type == DOUBLE and not all(map(is_other_than_zero, wanted.operands[1:])):
            return is_one_of(first.text, texts)
    return f"({first.text} IN ({', '.join(texts)}))"


def _brought_together(first: Rendered, other: Rendered, wanted: Operation) -> tuple[str, str]:
    """Return two arrays, maps or structs to compare: without a type that holds both, the second becomes the first's."""
    if first.type is not None and other.type is not None and wider(first.type, other.type) is None:
        other = Rendered(converted(other.text, other.type, first.type), first.type)
    return comparable(first, other, "IN", wanted.at)


def _case(wanted: Operation, operands: list[Rendered]) -> Rendered:
    rest = list(operands)
    held = rest.pop(0) if wanted.has_operand else None
    default = [rest.pop()] if wanted.has_default else []
    values, kind = aligned([*rest[1::2], *default], wanted.at, "the results of CASE are")
    text = "CASE"
    for when, then in zip(rest[::2], values, strict=False):
        test = when.text if held is None else "{} = {}".format(*compared(held, when, "=", wanted.at))
        text += f" WHEN {test} THEN {then}"
    if default:
        text += f" ELSE {values[-1]}"
    return Rendered(f"{text} END", kind)


def _check_numbers(operands: list[Rendered], wanted: Operation) -> None:
    for each, source in zip(operands, wanted.operands, strict=True):
        if each.type is not None and not each.type.is_number:
            raise SqlError(f"{wanted.operator} needs numbers, not {each.type}", source.at)


def _construct(wanted: Construct, scope: Scope) -> Rendered:
    values = [computed(each, scope) for each in wanted.values]
    if wanted.kind == "ARRAY":
        values = _as_texts(values, wanted.values)
        texts, kind = aligned(values, wanted.at, "the elements of ARRAY are")
        return Rendered(f"array({', '.join(texts)})", None if kind is None else array_of(kind))
    if wanted.kind == "STRUCT":
        names = [each.text for each in wanted.keys if isinstance(each, Name)]
        for number, name in enumerate(names):
            if name in names[:number]:
                raise SqlError(f"the STRUCT has two fields {name}", wanted.at)
        fields = ", ".join(f"{literal(name)}, {value.text}" for name, value in zip(names, values, strict=True))
        kinds = {name: each.type for name, each in zip(names, values, strict=True) if each.type is not None}
        return Rendered(f"named_struct({fields})", struct_of(kinds) if len(kinds) == len(values) else None)
    given_keys = [each for each in wanted.keys if not isinstance(each, Name)]
    keys = _as_texts([computed(each, scope) for each in given_keys], given_keys)
    values = _as_texts(values, wanted.values)
    key_texts, key_type = aligned(keys, wanted.at, "the keys of MAP are")
    value_texts, value_type = aligned(values, wanted.at, "the values of MAP are")
    if key_type == VARCHAR:  # a key that is NULL ends Spark's query; ksqlDB writes it as this text
        key_texts = [each if literal_of(key) is not None else f"coalesce({each}, 'null')"
                     for each, key in zip(key_texts, keys, strict=True)]  # fmt: skip
    pairs = ", ".join(f"{key}, {value}" for key, value in zip(key_texts, value_texts, strict=True))
    known = map_of(key_type, value_type) if key_type is not None and value_type is not None else None
    return Rendered(f"map({pairs})", known)


def _as_texts(values: list[Rendered], given: Sequence[Expression]) -> list[Rendered]:
    """Return the elements of ARRAY or MAP: after a VARCHAR that is not a literal, literal numbers are texts."""
    first = next((number for number, each in enumerate(values) if each.type is not None), None)
    if first is None or values[first].type != VARCHAR or isinstance(given[first], Literal):
        return values
    return [
        Rendered(converted(each.text, each.type, VARCHAR), VARCHAR)
        if isinstance(written, Literal) and each.type is not None and (each.type.is_number or each.type == BOOLEAN)
        else each
        for each, written in zip(values, given, strict=True)
    ]


def _lambda(wanted: Lambda, scope: Scope, kinds: tuple[SqlType | None, ...]) -> Rendered:
    """Render a lambda whose parameters have these types."""
    scope.lambdas += 1
    names = [f"p{scope.lambdas}_{number}" for number in range(len(wanted.parameters))]
    before = dict(scope.parameters)
    for number, (parameter, name) in enumerate(zip(wanted.parameters, names, strict=True)):
        scope.parameters[parameter.text] = Rendered(name, kinds[number] if number < len(kinds) else None)
    try:
        with _large_parts(wanted.body, scope) as bindings:
            body, fails, value = _and_failure(wanted.body, scope)
    finally:
        scope.parameters = before
        scope.lambdas -= 1
    head = names[0] if len(names) == 1 else f"({', '.join(names)})"  # Spark takes no parentheses around one

    def whole(part: str) -> str:
        try:
            return within_lambda(bindings.bound(value.bound(part)))
        except NotInLambdas as call:
            raise SqlError(f"a lambda cannot have {call}: Spark runs no Python there", wanted.at) from None

    pair = whole(f"struct({body.text} AS v, {fails} AS e)") if bindings or value else ""
    return Rendered(f"{head} -> {whole(body.text)}", body.type, whole(fails), pair)


def _call(wanted: Call, scope: Scope) -> Rendered:
    name = wanted.name.folded
    if name in _NOT_SUPPORTED:
        raise SqlError(_NOT_SUPPORTED[name], wanted.at)
    if wanted.distinct:
        if name == "COUNT" and len(wanted.arguments) == 1:
            raise SqlError(
                "COUNT(DISTINCT x) would store all values forever: use COUNT_DISTINCT(x), approximate", wanted.at
            )
        raise SqlError(f"{wanted.name.text}(DISTINCT ...) is not supported", wanted.at)
    known = FUNCTIONS.get(name)
    if known is not None and known.is_aggregate and not wanted.arguments:
        return _of_rows(wanted, known, scope)
    if wanted.star:
        raise SqlError(f"{wanted.name.text}(*) is not supported: only aggregates take *", wanted.at)
    if name in SHIFTS:
        return _time_shift(wanted, scope)
    arguments = _arguments(wanted, known, scope)
    if known is None:
        return _sparks_own(wanted, [each.text for each in arguments])
    if not known.least <= len(arguments) <= known.most:
        wish = str(known.least) if known.least == known.most else f"{known.least} to {known.most}"
        few = wish if known.most < ANY else f"at least {known.least}"
        raise SqlError(f"{name} takes {few} arguments, not {len(arguments)}", wanted.at)
    return _called(known, arguments, wanted, scope)


def _called(known: Function, arguments: list[Rendered], wanted: Call, scope: Scope) -> Rendered:
    try:
        found = _of_arguments(known, arguments)
    except Mismatch as mismatch:
        places = wanted.arguments
        at = places[min(mismatch.number, len(places) - 1)].at if places else wanted.at
        raise SqlError(mismatch.problem, at) from None
    if COLLECTED in found.text:
        limit = scope.collected.get(known.name, COLLECTED_MAX)
        found = Rendered(found.text.replace(COLLECTED, str(limit)), found.type)
    if ORDER in found.text:
        first = scope.bounds[0].quoted
        return Rendered(found.text.replace(ORDER, f"struct({first}.__offset, {first}.__partition)"), found.type)
    return found


def _of_arguments(known: Function, arguments: list[Rendered]) -> Rendered:
    """Render a call; its long arguments are written once, but for lambdas."""
    if known.kind != "scalar":
        return known.call(arguments)
    values = [each for each in arguments if not _LAMBDA.match(each.text)]

    def text(given: Sequence[str]) -> str:
        of_values = iter(given)
        return known.call([replace(each, text=next(of_values)) if each in values else each for each in arguments]).text

    return Rendered(once([each.text for each in values], text), known.call(arguments).type)


def _of_rows(wanted: Call, known: Function, scope: Scope) -> Rendered:
    """Render COUNT(*), COUNT(), and the like: the aggregate of ROWTIME."""
    if known.name == "COUNT":
        return Rendered("count(1)", BIGINT)
    if known.least > 1:
        raise SqlError(f"{known.name} takes arguments", wanted.at)
    row_time = scope.resolve(ColumnRef(Name(_ROWTIME, wanted.at), _first_source(scope, wanted), wanted.at))
    return _called(known, [row_time], wanted, scope)


def _first_source(scope: Scope, wanted: Call) -> Name:
    return Name(scope.bounds[0].alias, wanted.at)


def _arguments(wanted: Call, known: Function | None, scope: Scope) -> list[Rendered]:
    """Render the arguments; lambdas last, since their parameters have the types of the others."""
    found: dict[int, Rendered] = {}
    for number, each in enumerate(wanted.arguments):
        if not isinstance(each, Lambda):
            is_alone = is_caught(each) or _is_over_rows(wanted.name.folded)
            found[number] = (computed if is_alone else render)(each, scope)
    collection = found[0].type if 0 in found else None
    inner = collection.inner if collection is not None else ()
    for number, each in enumerate(wanted.arguments):
        if isinstance(each, Lambda):
            if known is None or not known.lambdas:
                raise SqlError(f"{wanted.name.text} takes no lambda", each.at)
            kinds: tuple[SqlType | None, ...] = inner
            if known.name == "REDUCE":
                kinds = (found[1].type if 1 in found else None, *inner)
            wanted_count = len(kinds) or len(each.parameters)
            if len(each.parameters) != wanted_count:
                raise SqlError(
                    f"the lambda of {known.name} has {wanted_count} parameters here, not {len(each.parameters)}",
                    each.at,
                )
            found[number] = _lambda(each, scope, kinds)
    return [found[number] for number in range(len(wanted.arguments))]


def _time_shift(wanted: Call, scope: Scope) -> Rendered:
    """Render TIMESTAMPADD(unit, n, time) and the like, in which the unit is a word, not a column."""
    name = wanted.name.folded
    if len(wanted.arguments) != 3 or not isinstance(wanted.arguments[0], ColumnRef):
        raise SqlError(f"write {name}(unit, number, time)", wanted.at)
    unit = wanted.arguments[0].name
    folded = unit.folded if unit.folded.endswith("S") else f"{unit.folded}S"
    if folded not in UNITS:
        raise SqlError(f"unknown unit of time {unit.text}: {', '.join(UNITS)}", unit.at)
    number, time = ((computed if is_caught(each) else render)(each, scope) for each in wanted.arguments[1:])
    kind = SHIFTS[name][0]
    if time.type not in (None, kind):
        raise SqlError(f"{name} takes a {kind}, not {time.type}", wanted.arguments[2].at)
    return shifted(name, folded, number.text, time.text)


def _sparks_own(wanted: Call, texts: list[str]) -> Rendered:
    """Render a function that only Spark has, whose type is not known here."""
    name = wanted.name.text
    if not name.replace("_", "").isalnum() or not name.isascii():
        raise SqlError(f"unknown function {name}", wanted.name.at)
    return Rendered(f"{name.lower()}({', '.join(texts)})", SPARK_TYPES.get(name.upper()))


__all__ = [
    "computed",
    "condition",
    "erring_groups",
    "filtering",
    "parts",
    "quote",
    "render",
]
