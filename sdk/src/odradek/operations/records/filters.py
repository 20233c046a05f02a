"""The conditions of a search, over an Arrow table first and over decoded records then.

A text and a part of a key are looked for in the bytes of whole columns; only rows that remain become objects, are
decoded, and meet the conditions on headers and the expression. Text in Avro and Protobuf is UTF-8, so it is found, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from odradek.operations.records.expression import EXACT, NumberBound, compile_expression, numbers_within, texts_within
from odradek.operations.records.view import Candidate, Formats

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions that a record must meet, all of them; "" asks for nothing.

    Attributes:
        text: occurs in the key or the value, in any case.
        key: occurs in the key, in exactly this form.
        header: a header of this name, or `name=part of its value`.
        where: an expression (expression.py).
    """

    text: str = ""
    key: str = ""
    header: str = ""
    where: str = ""

    def __bool__(self) -> bool:
        return bool(self.text or self.key or self.header or self.where)

    @property
    def needs_headers(self) -> bool:
        """Return True if a condition looks at headers."""
        return bool(self.header) or "header" in self.where

    def rows(self, formats: Formats | None = None) -> Callable[[pa.Table], pa.Table]:
        """Return a function from a table with key and value to the rows that may match.

        Args:
            formats: how values are decoded; None: by what they are.

        Raises KafkaError(INVALID_CONFIG) for an invalid expression.
        """
        import pyarrow.compute as pc

        text, key = self.text, self.key.encode()
        is_as_written = formats is None or formats.value in ("auto", "json", "text")
        within = texts_within(self.where) if self.where and is_as_written else []
        bounds = numbers_within(self.where) if self.where and is_as_written else []

        def keep(table: pa.Table) -> pa.Table:
            mask: Any = None
            if key:
                mask = pc.match_substring(table["key"], key)
            if text:
                found = pc.or_kleene(_contains(table["key"], text), _contains(table["value"], text))
                mask = found if mask is None else pc.and_kleene(mask, found)
            for part in within:
                found = _may_hold(table["value"], part)
                mask = found if mask is None else pc.and_kleene(mask, found)
            if mask is not None:
                table = table.filter(mask, null_selection_behavior="drop")
            return table.filter(_within_bounds(table["value"], bounds)) if bounds else table

        return keep

    def records(self) -> Callable[[Candidate], bool]:
        """Return a function for what remains. Raises KafkaError(INVALID_CONFIG) for an invalid expression."""
        conditions: list[Callable[[Candidate], bool]] = []
        if self.header:
            name, _, part = self.header.partition("=")
            wanted = part.encode()
            conditions.append(
                lambda each: any(found == name and wanted in (value or b"") for found, value in each.record.headers)
            )
        if self.where:
            conditions.append(compile_expression(self.where))
        return lambda each: all(condition(each) for condition in conditions)

    def whole(self) -> Callable[[Candidate], bool]:
        """Return a function that checks all conditions, for records that never were in a table."""
        rest, text, key = self.records(), self.text.casefold(), self.key.encode()

        def matches(each: Candidate) -> bool:
            if key and key not in (each.record.key or b""):
                return False
            parts = (each.record.key, each.record.value)
            if text and not any(text in (part or b"").decode(errors="replace").casefold() for part in parts):
                return False
            return rest(each)

        return matches


def _may_hold(column: Any, text: str) -> Any:
    """Return which values may be JSON with a text: it has its bytes, or an escape, which stands for any letter.

    What does not look like JSON, such as Avro, may hold it as well: there a symbol is a number.
    """
    import pyarrow.compute as pc

    is_json = pc.or_(pc.starts_with(column, b"{"), pc.starts_with(column, b"["))
    is_wide = pc.or_(pc.starts_with(column, b"{\0"), pc.starts_with(column, b"[\0"))  # UTF-16 and UTF-32
    has_it = pc.or_(pc.match_substring(column, text.encode()), pc.match_substring(column, b"\\"))
    return pc.or_(pc.or_(pc.invert(is_json), is_wide), has_it)


def _within_bounds(column: Any, bounds: Sequence[NumberBound]) -> Any:
    """Return which values may fulfil all bounds: where Arrow reads them as JSON with numbers there, those that do.

    A chunk that Arrow does not read so, since one member is a text or a value is no object, may match as a whole. So
    may a number that a float does not hold exactly.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from odradek.columnar.typed.json_values import read_objects

    kinds, compare = _number_columns(bounds), {"==": pc.equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater}
    compare[">="] = pc.greater_equal
    masks = []
    for chunk in column.chunks:
        found = read_objects(chunk, kinds)
        mask = pa.repeat(True, len(chunk))
        for path, name, number in bounds:
            if found is None:
                break
            member = found[path[0]]
            for part in path[1:]:
                member = pc.struct_field(member, part)
            holds = pc.or_(compare[name](member, number), pc.greater_equal(pc.abs(member), EXACT))
            mask = pc.and_(mask, pc.fill_null(holds, False).combine_chunks())
        masks.append(mask)
    return pa.chunked_array(masks, pa.bool_())


def _number_columns(bounds: Sequence[NumberBound]) -> pa.Schema:
    """Return the columns, nested as the paths are, whose leaves are numbers."""
    import pyarrow as pa

    tree: dict[str, Any] = {}
    for bound in bounds:
        at = tree
        for name in bound.path[:-1]:
            at = at.setdefault(name, {})
        at[bound.path[-1]] = None

    def kind(of: dict[str, Any] | None) -> pa.DataType:
        return pa.float64() if of is None else pa.struct([pa.field(name, kind(each)) for name, each in of.items()])

    return pa.schema([pa.field(name, kind(each)) for name, each in tree.items()])


def _contains(column: Any, text: str) -> Any:
    """Look for a text in a column of bytes, in any case; the letters of other alphabets in three cases."""
    import pyarrow.compute as pc

    if text.isascii():
        return pc.match_substring(pc.ascii_lower(_as_text(column)), text.lower())
    found: Any = None
    for form in {text, text.lower(), text.upper()}:
        each = pc.match_substring(column, form.encode())
        found = each if found is None else pc.or_kleene(found, each)
    return found


def _as_text(column: Any) -> Any:
    """Return a column of bytes as one of strings without a check: ASCII's letters are the same in both."""
    import pyarrow as pa

    chunks = [
        pa.Array.from_buffers(pa.string(), len(chunk), chunk.buffers(), offset=chunk.offset) for chunk in column.chunks
    ]
    return pa.chunked_array(chunks, pa.string())
