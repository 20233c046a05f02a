"""Functions of text, and of bytes as text."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.sql.functions.patterns import (
    NO_PATTERN,
    can_replace,
    groups_of,
    has_group,
    no_replacement,
    optional_groups,
)
from odradek.sql.functions.signature import ANY, Function, Mismatch, literal_of, template, text_of
from odradek.sql.types import BOOLEAN, BYTES, INT, VARCHAR, VARCHARS, Rendered, SqlType, array_of, map_of

_ENCODINGS = ("hex", "utf8", "ascii", "base64")


def _joined(arguments: Sequence[Rendered]) -> Rendered:
    """CONCAT: NULL is empty, unless all are."""
    is_bytes = any(each.type == BYTES for each in arguments)
    empty = "X''" if is_bytes else "''"
    text = "concat(" + ", ".join(f"coalesce({each.text}, {empty})" for each in arguments) + ")"
    return Rendered(text, BYTES if is_bytes else VARCHAR)


def _concat_ws(arguments: Sequence[Rendered]) -> Rendered:
    texts = [each.text for each in arguments]
    if arguments[0].type != BYTES:
        return Rendered(f"concat_ws({', '.join(texts)})", VARCHAR)
    pieces = f"filter(array({', '.join(texts[1:])}), x -> x IS NOT NULL)"
    glued = f"aggregate({pieces}, CAST(NULL AS BINARY), (a, x) -> IF(a IS NULL, x, concat(a, {texts[0]}, x)))"
    return Rendered(f"IF({texts[0]} IS NULL, NULL, coalesce({glued}, X''))", BYTES)


def _pad(name: str) -> Function:
    def render(arguments: Sequence[Rendered]) -> Rendered:
        value, size, padding = (each.text for each in arguments)
        is_bytes = arguments[0].type == BYTES
        return Rendered(
            f"IF({size} < 0 OR {padding} IS NULL OR length({padding}) = 0, NULL, "
            f"{name.lower()}({value}, {size}, {padding}))",
            BYTES if is_bytes else VARCHAR,
        )

    return Function(name, 3, 3, render, ("text|bytes", "INT", "text|bytes"))


def _substring(arguments: Sequence[Rendered]) -> Rendered:
    value, start, *size = (each.text for each in arguments)
    kind = arguments[0].type or VARCHAR
    # From the end and beyond it: a start before the first character is the first one; 0 is as 1.
    from_ = f"(CASE WHEN {start} < 0 THEN greatest(length({value}) + {start} + 1, 1) ELSE greatest({start}, 1) END)"
    found = f"substring({value}, {from_}{', ' + f'greatest({size[0]}, 0)' if size else ''})"
    missing = [f"{each} IS NULL" for each in (start, *size) if not each.lstrip("(- ").rstrip(")").isdigit()]
    return Rendered(f"IF({' OR '.join(missing)}, NULL, {found})" if missing else found, kind)


def _instr(arguments: Sequence[Rendered]) -> Rendered:
    texts = [each.text for each in arguments]
    if len(texts) == 2:
        return Rendered(f"coalesce(instr({texts[0]}, {texts[1]}), 0)", INT)
    return Rendered(f"ksql_instr({', '.join([*texts, '1'][:4])})", INT)


def _split(arguments: Sequence[Rendered]) -> Rendered:
    value, delimiter = (each.text for each in arguments)
    if arguments[0].type == BYTES:
        return Rendered(f"ksql_split_bytes({value}, {delimiter})", array_of(BYTES))
    quoted = f"concat('\\\\Q', {delimiter}, '\\\\E')"
    letters = f"split({value}, '')"
    return Rendered(f"IF({delimiter} = '', {letters}, split({value}, {quoted}, -1))", VARCHARS)


def _split_to_map(arguments: Sequence[Rendered]) -> Rendered:
    value, entries, pairs = (each.text for each in arguments)
    pieces = f"split({value}, concat('\\\\Q', {entries}, '\\\\E'), -1)"
    found = f"filter({pieces}, x -> instr(x, {pairs}) > 0)"
    cut = (
        f"transform({found}, x -> struct(substring(x, 1, instr(x, {pairs}) - 1) AS k, "
        f"split(x, concat('\\\\Q', {pairs}, '\\\\E'), -1)[1] AS v))"
    )
    return Rendered(
        f"IF({entries} = '' OR {pairs} = '' OR {entries} IS NULL OR {pairs} IS NULL, NULL, map_from_entries({cut}))",
        map_of(VARCHAR, VARCHAR),
    )


def _masked(arguments: Sequence[Rendered], value: str, skip: int) -> str:
    masks = [each.text for each in arguments[skip:]]
    defaults = ["'X'", "'x'", "'n'", "'-'"]
    return f"mask({value}, {', '.join([*masks, *defaults[len(masks) :]])})"


def are_masks(arguments: Sequence[Rendered], skip: int) -> bool:
    """Return False if a mask is written that is not one character."""
    return all(len(literal_of(each) or "x") == 1 and literal_of(each) != "" for each in arguments[skip:])


def _mask(arguments: Sequence[Rendered]) -> Rendered:
    if not are_masks(arguments, 1):
        return Rendered("CAST(NULL AS STRING)", VARCHAR)
    return Rendered(_masked(arguments, arguments[0].text, 1), VARCHAR)


def _mask_part(name: str, *, left: bool, masked: bool) -> Function:
    """MASK_LEFT and its like: mask, or keep, so many characters at one end."""

    def render(arguments: Sequence[Rendered]) -> Rendered:
        value, count = arguments[0].text, arguments[1].text
        if not are_masks(arguments, 2):
            return Rendered("CAST(NULL AS STRING)", VARCHAR)
        cut = f"least({count}, length({value}))" if left else f"greatest(length({value}) - {count}, 0)"
        head, tail = f"substring({value}, 1, {cut})", f"substring({value}, {cut} + 1)"
        if left == masked:
            head = _masked(arguments, head, 2)
        else:
            tail = _masked(arguments, tail, 2)
        return Rendered(f"IF({count} >= 0, concat({head}, {tail}), NULL)", VARCHAR)

    return Function(name, 2, 6, render, ("text", "INT", "any"))


def _encoding(argument: Rendered, number: int) -> None:
    known = literal_of(argument)
    if known is not None and known.lower() not in (*_ENCODINGS, "null"):  # 'null' gives NULL
        raise Mismatch(f"an encoding is one of {', '.join(_ENCODINGS)}, not {known}", number)


def _hex_digits(value: str) -> str:
    """Return hexadecimal without its `0x`, where a digit may be missing, or its `X'...'`."""
    rest = f"substring({value}, 3)"
    return (
        f"(CASE WHEN {value} LIKE '0x%' THEN concat(IF(length({value}) % 2 = 1, '0', ''), {rest}) "
        f"WHEN {value} RLIKE '^[xX]\\'.*\\'$' THEN substring({value}, 3, length({value}) - 3) ELSE {value} END)"
    )


def bytes_of(value: str, encoding: str, digits: str = "") -> str:
    """Return text as bytes, by the encoding that an expression names. Args: the text's digits, of hexadecimal."""
    digits = digits or value
    return (
        f"(CASE lower({encoding}) WHEN 'hex' THEN IF(length({digits}) % 2 = 0, unhex({digits}), NULL) "
        f"WHEN 'base64' THEN unbase64({value}) WHEN 'utf8' THEN encode({value}, 'UTF-8') "
        f"WHEN 'ascii' THEN encode({value}, 'US-ASCII') END)"
    )


def text_from(value: str, encoding: str, hex_form: str = "hex({0})") -> str:
    """Return bytes as text, by the encoding that an expression names."""
    shown = hex_form.replace("{0}", value)
    return (
        f"(CASE lower({encoding}) WHEN 'hex' THEN {shown} WHEN 'base64' THEN base64({value}) "
        f"WHEN 'utf8' THEN decode({value}, 'UTF-8') WHEN 'ascii' THEN decode({value}, 'US-ASCII') END)"
    )


def _to_bytes(arguments: Sequence[Rendered]) -> Rendered:
    _encoding(arguments[1], 1)
    return Rendered(bytes_of(arguments[0].text, arguments[1].text), BYTES)


def _from_bytes(arguments: Sequence[Rendered]) -> Rendered:
    _encoding(arguments[1], 1)
    return Rendered(text_from(arguments[0].text, arguments[1].text), VARCHAR)


def _encode(arguments: Sequence[Rendered]) -> Rendered:
    for number in (1, 2):
        _encoding(arguments[number], number)
    value, from_, to = (each.text for each in arguments)
    return Rendered(text_from(bytes_of(value, from_, _hex_digits(value)), to, "lower(hex({0}))"), VARCHAR)


def _chr(arguments: Sequence[Rendered]) -> Rendered:
    value = arguments[0]
    if value.type == VARCHAR:
        return Rendered(f"ksql_chr_of_text({value.text})", VARCHAR)
    return Rendered(f"ksql_chr(CAST({value.text} AS INT))", VARCHAR)


_FIRST_MATCH = text_of(r"\A(?>(?s:.*?)(?:"), text_of("))\\")  # around a pattern, before the number of a group


def _extract(name: str, kind: SqlType) -> Function:
    """REGEXP_EXTRACT and REGEXP_EXTRACT_ALL: a group that the pattern does not have is NULL."""
    function = name.lower()

    def render(arguments: Sequence[Rendered]) -> Rendered:
        pattern, value, *more = arguments
        written = literal_of(pattern)
        groups = 0 if written is None else groups_of(written)
        number = more[0].text if more else "0"
        if groups is None or (number.isdigit() and int(number) > groups and written is not None):
            return Rendered(f"CAST(NULL AS {kind.spark})", kind)
        found = f"{function}({value.text}, {pattern.text}, {number})"
        if kind == VARCHAR:  # Spark has an empty text for no match, and for a group that took no part in it
            found = f"IF({value.text} RLIKE {pattern.text}, {_group(found, value.text, pattern, number)}, NULL)"
        tests = [] if number.isdigit() else [f"{number} >= 0"]
        if more and not (number.isdigit() and written is not None):
            tests.append(has_group(pattern.text, number) if written is None else f"{number} <= {groups}")
        elif written is None:
            tests.append(f"NOT {NO_PATTERN}({pattern.text})")
        return Rendered(f"IF({' AND '.join(tests)}, {found}, NULL)" if tests else found, kind)

    return Function(name, 2, 3, render, ("text", "text", "INT"))


def _group(found: str, value: str, pattern: Rendered, number: str) -> str:
    """Return a group of a match; NULL, for which Spark has an empty text, if it took no part in it."""
    if number == "0":
        return found
    written = literal_of(pattern)
    if written is None:  # after the first match, a reference to a group without text matches if it took part
        again = f"concat({_FIRST_MATCH[0]}, {pattern.text}, {_FIRST_MATCH[1]}, {number})"
        return f"IF({found} = '' AND {number} > 0 AND NOT {value} RLIKE {again}, NULL, {found})"
    optional = optional_groups(written)
    if number.isdigit():
        return f"nullif({found}, '')" if int(number) in optional else found
    listed = ", ".join(map(str, sorted(optional)))
    return f"IF({number} IN ({listed}), nullif({found}, ''), {found})" if optional else found


def _regexp_replace(arguments: Sequence[Rendered]) -> Rendered:
    value, pattern, new = arguments
    known, written = literal_of(pattern), literal_of(new)
    found = f"regexp_replace({value.text}, {pattern.text}, {new.text})"
    if known is not None and groups_of(known) is None:
        return Rendered("CAST(NULL AS STRING)", VARCHAR)
    if known is not None and written is not None:
        is_possible = can_replace(written, known)
        return Rendered(found if is_possible else f"IF({value.text} RLIKE {pattern.text}, NULL, {value.text})", VARCHAR)
    cannot = no_replacement(new.text, pattern.text)
    if known is None:
        found = (
            f"IF({NO_PATTERN}({pattern.text}), NULL, IF({cannot} AND {value.text} RLIKE {pattern.text}, NULL, {found}))"
        )
    else:
        found = f"IF({cannot} AND {value.text} RLIKE {pattern.text}, NULL, {found})"
    return Rendered(found, VARCHAR)


def _regexp_split(arguments: Sequence[Rendered]) -> Rendered:
    value, pattern = arguments
    written = literal_of(pattern)
    found = f"split({value.text}, {pattern.text}, -1)"
    if written is None:
        found = f"IF({NO_PATTERN}({pattern.text}), NULL, {found})"
    elif groups_of(written) is None:
        found = "CAST(NULL AS ARRAY<STRING>)"
    return Rendered(found, VARCHARS)


def _elt(arguments: Sequence[Rendered]) -> Rendered:
    number, *values = (each.text for each in arguments)
    return Rendered(f"try_element_at(array({', '.join(values)}), nullif(greatest({number}, 0), 0))", VARCHAR)


def _field(arguments: Sequence[Rendered]) -> Rendered:
    wanted, *values = (each.text for each in arguments)
    return Rendered(f"CAST(coalesce(array_position(array({', '.join(values)}), {wanted}), 0) AS INT)", INT)


def _uuid(arguments: Sequence[Rendered]) -> Rendered:
    if not arguments:
        return Rendered("uuid()", VARCHAR)
    digits = f"lower(hex({arguments[0].text}))"
    cuts = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
    pieces = ", ".join(f"substring({digits}, {start}, {size})" for start, size in cuts)
    return Rendered(f"IF(length({arguments[0].text}) = 16, concat_ws('-', {pieces}), NULL)", VARCHAR)


TEXT = [
    template("UCASE", "upper({0})", 1, 1, VARCHAR, "text"),
    template("LCASE", "lower({0})", 1, 1, VARCHAR, "text"),
    template("UPPER", "upper({0})", 1, 1, VARCHAR, "text"),
    template("LOWER", "lower({0})", 1, 1, VARCHAR, "text"),
    template("INITCAP", "initcap({0})", 1, 1, VARCHAR, "text"),
    template("LEN", "length({0})", 1, 1, INT, "text|bytes"),
    template("TRIM", "regexp_replace({0}, '^[\\\\x00-\\\\x20]+|[\\\\x00-\\\\x20]+$', '')", 1, 1, VARCHAR, "text"),
    template("REPLACE", "replace({0}, {1}, {2})", 3, 3, VARCHAR, "text"),
    template("MD5", "md5(CAST({0} AS BINARY))", 1, 1, VARCHAR, "text"),
    Function("REGEXP_REPLACE", 3, 3, _regexp_replace, ("text",)),
    Function("CONCAT", 1, ANY, _joined, ("text|bytes",)),
    Function("CONCAT_WS", 2, ANY, _concat_ws, ("text|bytes",)),
    _pad("LPAD"),
    _pad("RPAD"),
    Function("SUBSTRING", 2, 3, _substring, ("text|bytes", "integer", "integer")),
    Function("INSTR", 2, 4, _instr, ("text", "text", "INT", "INT")),
    Function("SPLIT", 2, 2, _split, ("text|bytes",)),
    Function("SPLIT_TO_MAP", 3, 3, _split_to_map, ("text",)),
    Function("MASK", 1, 5, _mask, ("text",)),
    _mask_part("MASK_LEFT", left=True, masked=True),
    _mask_part("MASK_RIGHT", left=False, masked=True),
    _mask_part("MASK_KEEP_LEFT", left=True, masked=False),
    _mask_part("MASK_KEEP_RIGHT", left=False, masked=False),
    _extract("REGEXP_EXTRACT", VARCHAR),
    _extract("REGEXP_EXTRACT_ALL", VARCHARS),
    Function("REGEXP_SPLIT_TO_ARRAY", 2, 2, _regexp_split, ("text",)),
    Function("CHR", 1, 1, _chr, ("text|integer",)),
    Function("ELT", 2, ANY, _elt, ("INT", "text")),
    Function("FIELD", 2, ANY, _field, ("text",)),
    Function("TO_BYTES", 2, 2, _to_bytes, ("text",)),
    Function("FROM_BYTES", 2, 2, _from_bytes, ("bytes", "text")),
    Function("ENCODE", 3, 3, _encode, ("text",)),
    Function("UUID", 0, 1, _uuid, ("bytes",)),
    template("IS_JSON_STRING", "(coalesce(trim({0}), '') <> '' AND try_parse_json({0}) IS NOT NULL)", 1, 1, BOOLEAN),
]
