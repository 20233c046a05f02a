"""Where a call is itself an error: conditions of Spark SQL, one for each function of ksqlDB that has errors.

Most functions of ksqlDB return NULL for what they cannot do, and have none. The rest raise

    for an argument that is NULL where Java takes a plain number or BOOLEAN: UNBOXED
    for arguments that are there and cannot be used, so that there is no result: WITHOUT_RESULT
    for some of these only: _BY_NAME, since they also have NULL as a result

A call that is an error is NULL in Spark, too: failures.py takes care of what is around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from odradek.sql.functions.json_text import JSON_PATH, is_json_path
from odradek.sql.functions.patterns import NO_PATTERN, can_replace, groups_of, no_replacement
from odradek.sql.functions.signature import literal_of
from odradek.sql.functions.text import are_masks
from odradek.sql.functions.times import NO_ZONE, is_zone, shown, shown_in_python, shows
from odradek.sql.functions.urls import IS_URL
from odradek.sql.types import DOUBLE, NEVER, VARCHAR, Rendered

UNBOXED: dict[str, tuple[int, ...]] = {
    "DATETOSTRING": (0,), "ELT": (0,), "ENTRIES": (1,), "FROM_DAYS": (0,), "GENERATE_SERIES": (0, 1, 2),
    "GEO_DISTANCE": (0, 1, 2, 3), "INSTR": (2, 3), "JSON_ARRAY_CONTAINS": (0,), "STRINGTODATE": (0, 1),
    "STRINGTOTIMESTAMP": (0, 1, 2), "TIMESTAMPTOSTRING": (0,), **dict.fromkeys((
        "BIGINT_FROM_BYTES", "DOUBLE_FROM_BYTES", "INT_FROM_BYTES", "MASK_KEEP_LEFT", "MASK_KEEP_RIGHT", "MASK_LEFT",
        "MASK_RIGHT",
    ), (1,)),
}  # fmt: skip
WITHOUT_RESULT = frozenset({
    "BIGINT_FROM_BYTES", "DOUBLE_FROM_BYTES", "ENCODE", "FROM_BYTES", "GENERATE_SERIES", "GEO_DISTANCE",
    "INT_FROM_BYTES", "PARSE_DATE", "PARSE_TIME", "PARSE_TIMESTAMP", "STRINGTODATE", "STRINGTOTIMESTAMP",
    "TO_BYTES", "URL_DECODE_PARAM",
})  # fmt: skip
Arguments = Sequence[Rendered]


def has_errors(name: str) -> bool:
    """Return True for a function that has errors of its own, apart from those of lambdas."""
    return name in UNBOXED or name in WITHOUT_RESULT or name in _BY_NAME


def some_errors(name: str, arguments: Arguments) -> list[str]:
    """Return conditions that are TRUE where a call is an error; WITHOUT_RESULT is not among them. Never NULL."""
    missing = [f"{arguments[each].text} IS NULL" for each in UNBOXED.get(name, ()) if _may_be_null(arguments, each)]
    found = _BY_NAME[name](arguments) if name in _BY_NAME else NEVER
    return [*missing, *([] if found == NEVER else [found])]


def _may_be_null(arguments: Arguments, number: int) -> bool:
    if number >= len(arguments) or literal_of(arguments[number]) is not None:
        return False
    return not arguments[number].text.lstrip("(- ").rstrip("L)").isdigit() and arguments[number].text not in _TRUTHS


def _given(arguments: Arguments) -> list[str]:
    numbers = range(len(arguments))
    return [f"{arguments[each].text} IS NOT NULL" for each in numbers if _may_be_null(arguments, each)]


def _all(*conditions: str) -> str:
    return f"({' AND '.join(conditions)})" if conditions else "TRUE"


def _no_json(text: str) -> str:
    """Return where a text that is not blank is no JSON."""
    return f"({text} IS NOT NULL AND trim({text}) <> '' AND try_parse_json({text}) IS NULL)"


def _of_json(arguments: Arguments) -> str:
    return _no_json(arguments[0].text)


def _of_json_items(arguments: Arguments) -> str:
    text = arguments[0].text
    is_array = f"schema_of_variant(try_parse_json({text})) LIKE 'ARRAY%'"
    return f"({text} IS NOT NULL AND NOT coalesce({is_array}, FALSE))"


def _of_json_field(arguments: Arguments) -> str:
    text, path = arguments
    no_json = _no_json(text.text)
    written = literal_of(path)
    if written is None:
        is_path = f"{path.text} RLIKE {JSON_PATH}"
        return f"({path.text} IS NOT NULL AND {text.text} IS NOT NULL AND (NOT {is_path} OR {no_json}))"
    return no_json if is_json_path(written) else _all(*_given(arguments))


def _of_json_concat(arguments: Arguments) -> str:
    """One after the other: a NULL or blank text ends it before what comes after is read."""
    whens = " ".join(
        f"WHEN {each.text} IS NULL OR trim({each.text}) = '' THEN FALSE WHEN try_parse_json({each.text}) IS NULL "
        "THEN TRUE" for each in arguments
    )  # fmt: skip
    return f"(CASE {whens} ELSE FALSE END)"


def _of_url(arguments: Arguments) -> str:
    return f"({arguments[0].text} IS NOT NULL AND NOT {arguments[0].text} RLIKE {IS_URL})"


def _of_pattern(arguments: Arguments, number: int) -> str:
    """Return where a pattern cannot be compiled. Args: the number of the argument that is the pattern."""
    written = literal_of(arguments[number])
    if written is None:
        return _all(*_given(arguments), f"{NO_PATTERN}({arguments[number].text})")
    return NEVER if groups_of(written) is not None else _all(*_given(arguments))


def _of_extract(arguments: Arguments) -> str:
    wrong = _of_pattern(arguments, 0)
    written = literal_of(arguments[0])
    if len(arguments) < 3 or arguments[2].text.isdigit() or (written is not None and groups_of(written) is None):
        return wrong
    pattern, value, group = (each.text for each in arguments)
    matches = f"{value} RLIKE {pattern}"
    if written is None:
        matches = f"NOT {NO_PATTERN}({pattern}) AND {matches}"
    negative = f"coalesce({group} < 0 AND {matches}, FALSE)"
    return negative if wrong == NEVER else f"({wrong} OR {negative})"


def _of_replace(arguments: Arguments) -> str:
    wrong = _of_pattern(arguments, 1)
    value, pattern, new = arguments
    known, written = literal_of(pattern), literal_of(new)
    if wrong != NEVER and known is not None:
        return wrong
    if known is not None and written is not None:
        return NEVER if can_replace(written, known) else f"coalesce({value.text} RLIKE {pattern.text}, FALSE)"
    cannot = f"coalesce({no_replacement(new.text, pattern.text)} AND {value.text} RLIKE {pattern.text}, FALSE)"
    return cannot if wrong == NEVER else f"IF({wrong}, TRUE, {cannot})"


def _of_mask(arguments: Arguments, skip: int) -> str:
    if not are_masks(arguments, skip):
        return "TRUE"
    if skip == 1 or arguments[1].text.isdigit():
        return NEVER
    return f"coalesce({arguments[1].text} < 0, FALSE)"


def _of_shown(name: str) -> Callable[[Arguments], str]:
    """FORMAT_DATE and its like: a pattern that the value has no fields for, or a zone that does not exist."""

    def wrong(arguments: Arguments) -> str:
        pattern = literal_of(arguments[1])
        if pattern is not None and not shows(name, pattern):
            return _all(*_given(arguments))
        if shown_in_python(name, arguments):
            return _all(*_given(arguments), f"{shown(name, arguments)} IS NULL")
        return _of_zones(arguments, (2,))

    return wrong


def _of_zones(arguments: Arguments, numbers: Sequence[int]) -> str:
    wrong = []
    for each in numbers:
        if each < len(arguments):
            written = literal_of(arguments[each])
            if written is None:
                wrong.append(f"{NO_ZONE}({arguments[each].text})")
            elif not is_zone(written):
                return _all(*_given(arguments))
    return NEVER if not wrong else _all(*_given(arguments), f"({' OR '.join(wrong)})")


def _of_round(arguments: Arguments) -> str:
    """A whole number that is NULL; digits of a DOUBLE that has none."""
    value = arguments[0]
    if len(arguments) == 2:
        return is_no_number(value.text) if value.type == DOUBLE else NEVER
    is_whole = value.type is not None and value.type.is_integer and _may_be_null(arguments, 0)
    return f"{value.text} IS NULL" if is_whole else NEVER


def _of_trunc(arguments: Arguments) -> str:
    return is_no_number(arguments[0].text) if len(arguments) == 2 and arguments[0].type == DOUBLE else NEVER


def is_no_number(value: str) -> str:
    """Return where a DOUBLE is NaN or infinite, which no DECIMAL is. Never NULL."""
    return f"coalesce(isnan({value}) OR abs({value}) = double('Infinity'), FALSE)"


def _of_slice(arguments: Arguments) -> str:
    value, first, last = (each.text for each in arguments)
    start, end = f"coalesce({first}, 1)", f"coalesce({last}, size({value}))"
    return f"coalesce({start} >= 1 AND {end} <= size({value}) AND {start} - 1 > {end}, FALSE)"


def _of_chr(arguments: Arguments) -> str:
    value = arguments[0]
    if value.type != VARCHAR:
        return NEVER
    bad = r"'^\\\\u.{4}'", r"'\\\\u(?![0-9A-Fa-f]{4})'"
    return f"coalesce({value.text} RLIKE {bad[0]} AND {value.text} RLIKE {bad[1]}, FALSE)"


_TRUTHS = ("TRUE", "FALSE")
_BY_NAME: dict[str, Callable[[Arguments], str]] = {
    "CHR": _of_chr,
    "CONVERT_TZ": lambda arguments: _of_zones(arguments, (1, 2)),
    "EXTRACTJSONFIELD": _of_json_field,
    "JSON_ARRAY_LENGTH": _of_json,
    "JSON_CONCAT": _of_json_concat,
    "JSON_ITEMS": _of_json_items,
    "JSON_KEYS": _of_json,
    "JSON_RECORDS": _of_json,
    "MASK": lambda arguments: _of_mask(arguments, 1),
    "REGEXP_EXTRACT": _of_extract,
    "REGEXP_EXTRACT_ALL": _of_extract,
    "REGEXP_REPLACE": _of_replace,
    "REGEXP_SPLIT_TO_ARRAY": lambda arguments: _of_pattern(arguments, 1),
    "ROUND": _of_round,
    "SLICE": _of_slice,
    "TRUNC": _of_trunc,
    **{name: lambda arguments: _of_mask(arguments, 2) for name in UNBOXED if name.startswith("MASK_")},
    **{name: _of_shown(name) for name in ("DATETOSTRING", "FORMAT_DATE", "FORMAT_TIME", "FORMAT_TIMESTAMP",
                                          "TIMESTAMPTOSTRING")},
    **{f"URL_EXTRACT_{part}": _of_url
       for part in ("FRAGMENT", "HOST", "PARAMETER", "PATH", "PORT", "PROTOCOL", "QUERY")},
}  # fmt: skip
