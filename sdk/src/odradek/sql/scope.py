"""The meaning of names in a query: its sources under their aliases, and the pseudo columns.

A source is a view with the columns of its definition and

    __time                       event time (TIMESTAMP, under the watermark); ROWTIME is the same in ms
    __partition, __offset        ROWPARTITION, ROWOFFSET
    __window_start, __window_end of a windowed source: WINDOWSTART, WINDOWEND
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from odradek.sql.catalog import Source, did_you_mean
from odradek.sql.position import SqlError
from odradek.sql.syntax import ColumnRef, Expression
from odradek.sql.types import BIGINT, INT, Rendered, SqlType, quote

_PSEUDO = {
    "ROWTIME": ("unix_millis({alias}.__time)", BIGINT),
    "ROWPARTITION": ("{alias}.__partition", INT),
    "ROWOFFSET": ("{alias}.__offset", BIGINT),
}
ROW_COLUMNS = tuple(_PSEUDO)
WINDOW_BOUNDS = ("WINDOWSTART", "WINDOWEND")
PSEUDO_COLUMNS = (*ROW_COLUMNS, *WINDOW_BOUNDS)
_WINDOW = {"WINDOWSTART": ("__window_start", "start"), "WINDOWEND": ("__window_end", "end")}


@dataclass(frozen=True, slots=True)
class Bound:
    """A source of a query."""

    alias: str
    source: Source

    @property
    def quoted(self) -> str:
        return quote(self.alias)

    def render(self, column: str, kind: SqlType) -> Rendered:
        return Rendered(f"{self.quoted}.{quote(column)}", kind)


@dataclass(slots=True)
class Scope:
    """The names that an expression may use."""

    bounds: list[Bound]
    window: str = ""  # name of Spark's window column if the query creates windows: window | session_window
    window_gap_ms: int = 0  # a session ends with its last record; Spark's ends so much later
    row_key: Rendered | None = None  # of a FULL JOIN: the key from whichever side has it
    parameters: dict[str, Rendered] = field(default_factory=dict)  # of enclosing lambdas
    lambdas: int = 0  # so many are around an expression: the parameters of those within have other names
    types: Mapping[str, SqlType] = field(default_factory=dict)  # of CREATE TYPE
    collected: Mapping[str, int] = field(default_factory=dict)  # elements that COLLECT_LIST and COLLECT_SET keep
    replacements: list[tuple[Expression, Rendered]] = field(default_factory=list)  # of table functions
    groups: list[tuple[Expression, Rendered]] = field(default_factory=list)  # GROUP BY expressions that may be errors

    @property
    def row_key_name(self) -> str:
        """Name of the key of joined rows that is in no single column: ROWKEY, with a number if a source has that."""
        taken = {column.name for bound in self.bounds for column in bound.source.columns}
        name, number = "ROWKEY", 0
        while name in taken:
            number += 1
            name = f"ROWKEY_{number}"
        return name

    def replaced(self, expression: Expression) -> Rendered | None:
        """Return what stands for an expression that was computed before, if it was."""
        replaced = next((found for each, found in self.replacements if each is expression), None)
        return replaced or next((found for each, found in self.groups if each == expression), None)

    def resolve(self, wanted: ColumnRef) -> Rendered:
        """Resolve a name. Raises SqlError at an unknown or ambiguous one."""
        name = wanted.name.text
        if wanted.source is None:
            if name in self.parameters:
                return self.parameters[name]
            return self._unqualified(wanted)
        bound = self._bound(wanted.source.text)
        if bound is not None:
            found = self._of(bound, name) or self._bound_of_window(name)
            if found is None:
                raise self._unknown(wanted, [bound])
            return found
        outer = ColumnRef(wanted.source, None, wanted.source.at)
        if wanted.source.text in self.parameters or any(self._of(each, wanted.source.text) for each in self.bounds):
            return struct_field(self.resolve(outer), wanted.name.text, wanted)
        hint = did_you_mean(wanted.source.text, [each.alias for each in self.bounds])
        raise SqlError(f"unknown source {wanted.source.text} in this query{hint}", wanted.source.at)

    def _bound(self, alias: str) -> Bound | None:
        return next((each for each in self.bounds if each.alias == alias), None)

    def _bound_of_window(self, name: str) -> Rendered | None:
        """Return WINDOWSTART or WINDOWEND of the windows that the query creates."""
        if not self.window or name not in _WINDOW:
            return None
        found = f"unix_millis({self.window}.{_WINDOW[name][1]})"
        if name == "WINDOWEND" and self.window_gap_ms:
            found = f"({found} - {self.window_gap_ms})"
        return Rendered(found, BIGINT)

    def _unqualified(self, wanted: ColumnRef) -> Rendered:
        found = [(each, self._of(each, wanted.name.text)) for each in self.bounds]
        hits = [(each, rendered) for each, rendered in found if rendered is not None]
        folded = wanted.name.text
        created = self._bound_of_window(folded)
        if created is not None:
            return created
        if folded == self.row_key_name and self.row_key is not None and not hits:
            return self.row_key
        if not hits:
            raise self._unknown(wanted, self.bounds)
        if len(hits) > 1:
            names = " and ".join(each.alias for each, _ in hits)
            raise SqlError(f"{wanted.name.text} is in {names}: write {hits[0][0].alias}.{wanted.name.text}", wanted.at)
        rendered = hits[0][1]
        assert rendered is not None
        return rendered

    def _of(self, bound: Bound, name: str) -> Rendered | None:
        column = bound.source.column(name)
        if column is not None:
            return bound.render(column.name, column.type)
        folded = name
        if folded in _PSEUDO:
            template, kind = _PSEUDO[folded]
            return Rendered(template.format(alias=bound.quoted), kind)
        if folded in _WINDOW and bound.source.window:
            return Rendered(f"unix_millis({bound.quoted}.{_WINDOW[folded][0]})", BIGINT)
        return None

    def _unknown(self, wanted: ColumnRef, bounds: list[Bound]) -> SqlError:
        known = [column.name for each in bounds for column in each.source.columns]
        where = " and ".join(each.alias for each in bounds) or "a row of values"
        if wanted.name.text in _WINDOW:
            return SqlError(f"{wanted.name.text} applies only to windows: {where} has none", wanted.at)
        verb = "have" if len(bounds) > 1 else "has"
        return SqlError(
            f"{where} {verb} no column {wanted.name.text}{did_you_mean(wanted.name.text, known)}", wanted.at
        )


def struct_field(outer: Rendered, name: str, at: ColumnRef) -> Rendered:
    """Return a field of a struct. Raises SqlError if the struct is known to lack it."""
    if outer.type is None:
        return Rendered(f"{outer.text}.{quote(name)}", None)
    if outer.type.name != "STRUCT":
        raise SqlError(f"only a STRUCT has fields, not {outer.type}", at.at)
    for field_name, kind in zip(outer.type.fields, outer.type.inner, strict=True):
        if field_name == name:
            return Rendered(f"{outer.text}.{quote(field_name)}", kind)
    raise SqlError(f"the STRUCT has no field {name}{did_you_mean(name, outer.type.fields)}", at.name.at)
