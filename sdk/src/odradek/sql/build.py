"""From lark's tree to syntax.py: one method per rule of grammar.lark, children first."""

from __future__ import annotations

from typing import Any

from lark import Token, Transformer, v_args
from lark.tree import Meta

from odradek.sql.position import Position, SqlError
from odradek.sql.syntax import (
    Alter,
    AssertSchema,
    AssertTopic,
    Call,
    Cast,
    ColumnDefinition,
    ColumnRef,
    Construct,
    Create,
    CreateConnector,
    CreateType,
    Define,
    Describe,
    Drop,
    DropConnector,
    Duration,
    Explain,
    Expression,
    Field,
    InsertSelect,
    InsertValues,
    Join,
    Lambda,
    Literal,
    Name,
    Operation,
    Pause,
    Print,
    Property,
    Query,
    SelectItem,
    Set,
    Show,
    SourceRef,
    Subscript,
    Terminate,
    TypeName,
    Window,
    Within,
)
from odradek.sql.types import UNIT_MS

_INTEGER_DIGITS_MAX = 18
_SHOWN = ("STREAMS", "TABLES", "TOPICS", "QUERIES", "PROPERTIES", "FUNCTIONS", "TYPES", "VARIABLES", "CONNECTORS")
Children = list[Any]


def place_of(meta: Meta | Token) -> Position:
    """Return the position of a rule or a token; a rule without a token has that of the start."""
    line = getattr(meta, "line", None) or 1
    column = getattr(meta, "column", None) or 1
    if getattr(meta, "end_line", None) == line:
        return Position(line, column, max(1, (meta.end_column or column + 1) - column))
    return Position(line, column, 10_000)  # to the end of its line


def whole_number(token: Token, low: int = 0) -> int:
    """Parse a whole number from `low` on. Raises SqlError for any other token."""
    if not token.isdigit() or len(token) > _INTEGER_DIGITS_MAX or int(token) < low:
        raise SqlError(f"expected a whole number from {low}, not {token}", place_of(token))
    return int(token)


def unquoted(token: Token) -> str:
    """Return the text between quotes, with doubled quotes reduced to one."""
    quote = token[0]
    return token[1:-1].replace(quote * 2, quote)


class _Part:
    """A clause that is not yet part of a statement."""

    def __init__(self, kind: str, value: Any = None, at: Position | None = None) -> None:
        self.kind = kind
        self.value = value
        self.at = at


def _take(parts: Children, kind: str) -> Any:
    for part in parts:
        if isinstance(part, _Part) and part.kind == kind:
            return part.value
    return None


def _has(parts: Children, kind: str) -> bool:
    return any(isinstance(part, _Part) and part.kind == kind for part in parts)


def _written(parts: Children) -> str:
    """Return the topic or subject that a statement names: as written, in quotes or without."""
    for part in parts:
        if isinstance(part, Name):
            return part.written or part.text
        if isinstance(part, Token) and part.type == "STRING":
            return unquoted(part)
    return ""


@v_args(meta=True)
class Build(Transformer[Token, Any]):
    """Builds the statements of a script."""

    def start(self, meta: Meta, children: Children) -> list[Any]:
        return [child for child in children if child is not None]

    # --- names and literals

    def ident(self, meta: Meta, children: Children) -> Name:
        token = children[0]
        if token.type == "QUOTED":
            return Name(unquoted(token), place_of(token), unquoted(token))
        return Name(str(token).upper(), place_of(token), str(token))

    plain_name = ident

    def kind(self, meta: Meta, children: Children) -> str:
        return str(children[0]).upper()

    join_kind = kind

    def number(self, meta: Meta, children: Children) -> Literal:
        return Literal("number", str(children[0]), place_of(meta))

    def string(self, meta: Meta, children: Children) -> Literal:
        return Literal("string", unquoted(children[0]), place_of(meta))

    def boolean(self, meta: Meta, children: Children) -> Literal:
        return Literal("boolean", str(children[0]).upper(), place_of(meta))

    def null(self, meta: Meta, children: Children) -> Literal:
        return Literal("null", "NULL", place_of(meta))

    def typed(self, meta: Meta, children: Children) -> Literal:
        return Literal(str(children[0]).lower(), unquoted(children[1]), place_of(meta))

    def duration(self, meta: Meta, children: Children) -> Duration:
        number, unit = children
        name = unit.folded.removesuffix("S")
        if name not in UNIT_MS:
            raise SqlError(f"unknown unit of time {unit.text}: {', '.join(f'{each}S' for each in UNIT_MS)}", unit.at)
        return Duration(whole_number(number, 0) * UNIT_MS[name], place_of(meta))

    # --- types

    def type_name(self, meta: Meta, children: Children) -> str:
        return str(children[0]).upper()

    def type(self, meta: Meta, children: Children) -> TypeName:
        return TypeName(children[0], place_of(meta))

    def type_numbers(self, meta: Meta, children: Children) -> TypeName:
        name, *numbers = children
        return TypeName(name, place_of(meta), numbers=tuple(whole_number(number) for number in numbers))

    def type_named(self, meta: Meta, children: Children) -> TypeName:
        if children[0] not in ("VARCHAR", "STRING") or children[1] != "STRING":
            raise SqlError("write the type as VARCHAR", place_of(meta))
        return TypeName("VARCHAR", place_of(meta))

    def type_inner(self, meta: Meta, children: Children) -> TypeName:
        name, *inner = children
        return TypeName(name, place_of(meta), inner=tuple(inner))

    def type_field(self, meta: Meta, children: Children) -> tuple[str, TypeName]:
        return children[0].text, children[1]

    def type_struct(self, meta: Meta, children: Children) -> TypeName:
        fields = [each for each in children[1:] if each is not None]
        return TypeName(
            "STRUCT", place_of(meta), inner=tuple(kind for _, kind in fields), fields=tuple(name for name, _ in fields)
        )

    # --- expressions

    def column_ref(self, meta: Meta, children: Children) -> ColumnRef:
        return ColumnRef(children[-1], children[0] if len(children) == 2 else None, place_of(meta))

    def call(self, meta: Meta, children: Children) -> Call:
        name, *arguments = children
        return Call(name, tuple(each for each in arguments if each is not None), place_of(meta))

    def call_star(self, meta: Meta, children: Children) -> Call:
        return Call(children[0], (), place_of(meta), star=True)

    def call_distinct(self, meta: Meta, children: Children) -> Call:
        return Call(children[0], tuple(children[1:]), place_of(meta), distinct=True)

    def binary(self, meta: Meta, children: Children) -> Operation:
        left, operator, right = children
        word = {"!=": "<>"}.get(operator, str(operator).upper())
        return Operation(word, (left, right), place_of(meta))

    def unary(self, meta: Meta, children: Children) -> Expression:
        operator, operand = children
        if operator.type == "PLUS":
            return operand  # type: ignore[no-any-return]
        return Operation(str(operator).upper(), (operand,), place_of(meta))

    def _operation(operator: str, *, negated: bool = False) -> Any:  # type: ignore[misc]
        def build(self: Build, meta: Meta, children: Children) -> Operation:
            made = Operation(operator, tuple(children), place_of(meta))
            return Operation("NOT", (made,), place_of(meta)) if negated else made

        return build

    is_null = _operation("IS NULL")
    is_not_null = _operation("IS NOT NULL")
    is_distinct = _operation("IS DISTINCT FROM")
    is_not_distinct = _operation("IS DISTINCT FROM", negated=True)
    between = _operation("BETWEEN")
    not_between = _operation("BETWEEN", negated=True)
    in_list = _operation("IN")
    not_in_list = _operation("IN", negated=True)

    def like(self, meta: Meta, children: Children) -> Operation:
        left, pattern, escape = children
        operands: tuple[Expression, ...] = (left, pattern)
        if escape is not None:
            operands += (Literal("string", unquoted(escape), place_of(escape)),)
        return Operation("LIKE", operands, place_of(meta))

    def not_like(self, meta: Meta, children: Children) -> Operation:
        return Operation("NOT", (self.like(meta, children),), place_of(meta))

    def cast(self, meta: Meta, children: Children) -> Cast:
        return Cast(children[1], children[2], place_of(meta))

    def when(self, meta: Meta, children: Children) -> tuple[Expression, Expression]:
        return children[0], children[1]

    def case(self, meta: Meta, children: Children) -> Operation:
        _, operand, *pairs, default = children
        operands: list[Expression] = [] if operand is None else [operand]
        for condition, value in pairs:
            operands += [condition, value]
        if default is not None:
            operands.append(default)
        return Operation(
            "CASE", tuple(operands), place_of(meta), has_operand=operand is not None, has_default=default is not None
        )

    def field(self, meta: Meta, children: Children) -> Field:
        return Field(children[0], children[1], place_of(meta))

    def subscript(self, meta: Meta, children: Children) -> Subscript:
        return Subscript(children[0], children[1], place_of(meta))

    def array(self, meta: Meta, children: Children) -> Construct:
        return Construct("ARRAY", (), tuple(each for each in children[1:] if each is not None), place_of(meta))

    def map_entry(self, meta: Meta, children: Children) -> tuple[Any, Any]:
        return children[0], children[1]

    struct_entry = map_entry

    def map(self, meta: Meta, children: Children) -> Construct:
        entries = [each for each in children[1:] if each is not None]
        return Construct("MAP", tuple(k for k, _ in entries), tuple(v for _, v in entries), place_of(meta))

    def struct(self, meta: Meta, children: Children) -> Construct:
        entries = [each for each in children[1:] if each is not None]
        return Construct("STRUCT", tuple(k for k, _ in entries), tuple(v for _, v in entries), place_of(meta))

    def lambda_(self, meta: Meta, children: Children) -> Lambda:
        return Lambda(tuple(children[:-1]), children[-1], place_of(meta))

    def lambda_in_parentheses(self, meta: Meta, children: Children) -> Lambda:
        parameter, body = children
        if not isinstance(parameter, ColumnRef) or parameter.source is not None:
            raise SqlError("the parameter of a lambda is a name, such as x => x + 1", parameter.at)
        return Lambda((parameter.name,), body, place_of(meta))

    # --- clauses of a query

    def star(self, meta: Meta, children: Children) -> SelectItem:
        return SelectItem(None, None, None, place_of(meta))

    def source_star(self, meta: Meta, children: Children) -> SelectItem:
        return SelectItem(None, None, children[0], place_of(meta))

    def struct_star(self, meta: Meta, children: Children) -> SelectItem:
        return SelectItem(children[0], None, None, place_of(meta), is_struct_star=True)

    def grouping_set(self, meta: Meta, children: Children) -> _Part:
        return _Part("grouping_set", tuple(children))

    def item(self, meta: Meta, children: Children) -> SelectItem:
        return SelectItem(children[0], children[1], None, place_of(meta))

    def source(self, meta: Meta, children: Children) -> SourceRef:
        return SourceRef(children[0], children[1])

    def grace(self, meta: Meta, children: Children) -> _Part:
        return _Part("grace", children[0], place_of(meta))

    def within(self, meta: Meta, children: Children) -> Within:
        durations = [each for each in children if isinstance(each, Duration)]
        return Within(durations[0], durations[-1], _take(children, "grace"), place_of(meta))

    def join(self, meta: Meta, children: Children) -> Join:
        kind, source, *within, condition = children
        return Join(kind or "INNER", source, within[0] if within else None, condition, place_of(meta))

    def _clause(name: str) -> Any:  # type: ignore[misc]
        def build(self: Build, meta: Meta, children: Children) -> _Part:
            return _Part(name, children[0], place_of(meta))

        return build

    size, advance, retention, gap = _clause("size"), _clause("advance"), _clause("retention"), _clause("gap")
    where, having = _clause("where"), _clause("having")

    def group_by(self, meta: Meta, children: Children) -> _Part:
        found: list[Any] = []
        for each in children:
            found += each.value if isinstance(each, _Part) else [each]
        return _Part("group_by", tuple(found), place_of(meta))

    def partition_by(self, meta: Meta, children: Children) -> _Part:
        return _Part("partition_by", tuple(children), place_of(meta))

    def limit(self, meta: Meta, children: Children) -> _Part:
        return _Part("limit", whole_number(children[0], 1), place_of(meta))

    def emit(self, meta: Meta, children: Children) -> _Part:
        name: Name = children[0]
        if name.folded not in ("CHANGES", "FINAL"):
            raise SqlError(f"EMIT must be CHANGES or FINAL, not {name.text}", name.at)
        return _Part("emit", name.folded, place_of(meta))

    def window(self, meta: Meta, children: Children) -> _Part:
        names = [each for each in children if isinstance(each, Name)]
        name, parts = names[-1], [each for each in children if isinstance(each, _Part)]  # before the kind: its own name
        kind = name.folded
        wanted = {
            "TUMBLING": (("size",), ("retention", "grace")),
            "HOPPING": (("size", "advance"), ("retention", "grace")),
            "SESSION": (("gap",), ("retention", "grace")),
        }.get(kind)
        if wanted is None:
            raise SqlError(f"a window must be TUMBLING, HOPPING or SESSION, not {name.text}", name.at)
        needed, allowed = wanted
        words = {"size": "SIZE", "advance": "ADVANCE BY", "gap": "the gap", "retention": "RETENTION", "grace": "GRACE"}
        for part in parts:
            if part.kind not in needed + allowed:
                raise SqlError(f"a {kind} window has no {words[part.kind].removeprefix('the ')}", part.at)
            if [each.kind for each in parts].count(part.kind) > 1:
                raise SqlError(f"{words[part.kind]} appears twice", part.at)
        for each in needed:
            if not _has(parts, each):
                raise SqlError(f"a {kind} window needs {words[each]}", name.at)
        size: Duration = _take(parts, "size") or _take(parts, "gap")
        advance: Duration | None = _take(parts, "advance")
        for length in (size, advance):
            if length is not None and length.ms == 0:
                raise SqlError("the length of a window must be positive", length.at)
        if advance is not None and advance.ms > size.ms:
            raise SqlError("a window that advances by more than its size would skip records", advance.at)
        made = Window(kind, size, advance, _take(parts, "retention"), _take(parts, "grace"), place_of(meta))
        return _Part("window", made)

    def query(self, meta: Meta, children: Children) -> Query:
        return Query(
            items=tuple(each for each in children if isinstance(each, SelectItem)),
            source=next(each for each in children if isinstance(each, SourceRef)),
            joins=tuple(each for each in children if isinstance(each, Join)),
            window=_take(children, "window"),
            where=_take(children, "where"),
            group_by=_take(children, "group_by") or (),
            partition_by=_take(children, "partition_by") or (),
            having=_take(children, "having"),
            emit=_take(children, "emit") or "",
            limit=_take(children, "limit"),
            at=place_of(meta),
        )

    # --- statements

    def key(self, meta: Meta, children: Children) -> str:
        return "KEY"

    def primary_key(self, meta: Meta, children: Children) -> str:
        return "PRIMARY KEY"

    def all_headers(self, meta: Meta, children: Children) -> str:
        return "HEADERS"

    def one_header(self, meta: Meta, children: Children) -> _Part:
        return _Part("header", unquoted(children[-1]))

    def column(self, meta: Meta, children: Children) -> ColumnDefinition:
        name, kind, role = children
        if isinstance(role, _Part):
            return ColumnDefinition(name, kind, "HEADER", role.value)
        return ColumnDefinition(name, kind, role or "")

    def source_word(self, meta: Meta, children: Children) -> _Part:
        return _Part("source")

    def create_type(self, meta: Meta, children: Children) -> CreateType:
        name = next(each for each in children if isinstance(each, Name))
        kind = next(each for each in children if isinstance(each, TypeName))
        return CreateType(name, kind, _has(children, "if_not_exists"), place_of(meta))

    def drop_type(self, meta: Meta, children: Children) -> CreateType:
        name = next(each for each in children if isinstance(each, Name))
        return CreateType(name, None, _has(children, "if_exists"), place_of(meta))

    def create_connector(self, meta: Meta, children: Children) -> CreateConnector:
        kind = next(each for each in children if isinstance(each, Token))
        name = next(each for each in children if isinstance(each, Name))
        properties = _take(children, "with") or ()
        return CreateConnector(kind.type, name, _has(children, "if_not_exists"), properties, place_of(meta))

    def drop_connector(self, meta: Meta, children: Children) -> DropConnector:
        name = next(each for each in children if isinstance(each, Name))
        return DropConnector(name, _has(children, "if_exists"), place_of(meta))

    def define(self, meta: Meta, children: Children) -> Define:
        word, name, *value = children
        return Define(name, unquoted(value[0]) if word.type == "DEFINE" else None, place_of(meta))

    def pause(self, meta: Meta, children: Children) -> Pause:
        word, name = children
        return Pause(None if name.text == "ALL" else name, word.type == "RESUME", place_of(meta))

    def addition(self, meta: Meta, children: Children) -> ColumnDefinition:
        name = next(each for each in children if isinstance(each, Name))
        return ColumnDefinition(name, children[-1], "")

    def alter(self, meta: Meta, children: Children) -> Alter:
        kind = next(each for each in children if isinstance(each, str) and not isinstance(each, Token))
        name = next(each for each in children if isinstance(each, Name))
        columns = tuple(each for each in children if isinstance(each, ColumnDefinition))
        return Alter(kind, name, columns, place_of(meta))

    def not_exists(self, meta: Meta, children: Children) -> _Part:
        return _Part("not_exists")

    def timeout(self, meta: Meta, children: Children) -> _Part:
        return _Part("timeout", children[-1])

    def from_beginning(self, meta: Meta, children: Children) -> _Part:
        return _Part("from_beginning")

    def assert_topic(self, meta: Meta, children: Children) -> AssertTopic:
        return AssertTopic(
            _written(children), not _has(children, "not_exists"), _take(children, "with") or (),
            _take(children, "timeout"), place_of(meta),
        )  # fmt: skip

    def assert_schema(self, meta: Meta, children: Children) -> AssertSchema:
        numbers = [each for each in children if isinstance(each, Token) and each.type == "NUMBER"]
        return AssertSchema(
            _written(children), whole_number(numbers[0], 1) if numbers else None, not _has(children, "not_exists"),
            _take(children, "timeout"), place_of(meta),
        )  # fmt: skip

    def print(self, meta: Meta, children: Children) -> Print:
        every = _take(children, "sample") or 1
        is_whole = _has(children, "from_beginning")
        return Print(_written(children), is_whole, every, _take(children, "limit"), place_of(meta))

    def sample(self, meta: Meta, children: Children) -> _Part:
        return _Part("sample", whole_number(children[-1], 1), place_of(meta))

    def columns(self, meta: Meta, children: Children) -> _Part:
        return _Part("columns", tuple(children))

    def property_value(self, meta: Meta, children: Children) -> tuple[str, Position]:
        value = children[0]
        if isinstance(value, Name):
            return value.text, value.at
        return (unquoted(value) if value.type == "STRING" else str(value)), place_of(meta)

    def property(self, meta: Meta, children: Children) -> Property:
        name, (value, at) = children
        if isinstance(name, Token):
            name = Name(unquoted(name), place_of(name))
        return Property(name, value, at)

    def with_(self, meta: Meta, children: Children) -> _Part:
        return _Part("with", tuple(each for each in children if each is not None))

    def or_replace(self, meta: Meta, children: Children) -> _Part:
        return _Part("or_replace")

    def if_not_exists(self, meta: Meta, children: Children) -> _Part:
        return _Part("if_not_exists")

    def if_exists(self, meta: Meta, children: Children) -> _Part:
        return _Part("if_exists")

    def delete_topic(self, meta: Meta, children: Children) -> _Part:
        return _Part("delete_topic")

    def create(self, meta: Meta, children: Children) -> Create:
        kind = next(each for each in children if isinstance(each, str) and not isinstance(each, Token))
        name = next(each for each in children if isinstance(each, Name))
        query = children[-1] if isinstance(children[-1], Query) else None
        columns = _take(children, "columns")
        if query is not None and columns is not None:
            raise SqlError("columns cannot be combined with AS SELECT: the query defines them", name.at)
        return Create(
            kind=kind,
            name=name,
            or_replace=_has(children, "or_replace"),
            if_not_exists=_has(children, "if_not_exists"),
            columns=columns,
            properties=_take(children, "with") or (),
            query=query,
            at=place_of(meta),
            is_source=_has(children, "source"),
        )

    def insert_select(self, meta: Meta, children: Children) -> InsertSelect:
        name, query = [each for each in children if not isinstance(each, Token)]
        return InsertSelect(name, query, place_of(meta))

    def names(self, meta: Meta, children: Children) -> _Part:
        return _Part("names", tuple(children))

    def row(self, meta: Meta, children: Children) -> _Part:
        return _Part("row", tuple(children), place_of(meta))

    def insert_values(self, meta: Meta, children: Children) -> InsertValues:
        rows = tuple(part.value for part in children if isinstance(part, _Part) and part.kind == "row")
        return InsertValues(children[0], _take(children, "names") or (), rows, place_of(meta))

    def show(self, meta: Meta, children: Children) -> Show:
        words = [each for each in children if isinstance(each, Name)]
        extended = len(words) > 1 and words[-1].folded == "EXTENDED"
        shows_all = words[0].folded == "ALL" and len(words) > 1
        if shows_all:
            words.pop(0)
        folded = [each.folded for each in words]
        if folded[:2] == ["CONNECTOR", "PLUGINS"]:
            return Show("CONNECTOR PLUGINS", place_of(meta))
        if folded[0] in ("SOURCE", "SINK") and folded[1:2] == ["CONNECTORS"]:
            return Show("CONNECTORS", place_of(meta), kind=folded[0])
        if words[0].folded not in _SHOWN:
            raise SqlError(f"SHOW must be followed by {', '.join(_SHOWN)}, not {words[0].text}", words[0].at)
        return Show(words[0].folded, place_of(meta), extended, all=shows_all)

    def describe(self, meta: Meta, children: Children) -> Describe:
        names = [each for each in children if isinstance(each, Name)]
        if names[0].folded == "FUNCTION" and len(names) > 1:
            return Describe(names[1], place_of(meta), is_function=True)
        if names[0].folded == "CONNECTOR" and len(names) > 1:
            return Describe(names[1], place_of(meta), is_connector=True)
        return Describe(names[0], place_of(meta), len(names) > 1 and names[1].folded == "EXTENDED")

    def explain(self, meta: Meta, children: Children) -> Explain:
        wanted = children[0]
        if isinstance(wanted, Name):
            return Explain(None, wanted, place_of(meta))
        return Explain(wanted, None, place_of(meta))

    def drop(self, meta: Meta, children: Children) -> Drop:
        kind = next(each for each in children if isinstance(each, str))
        name = next(each for each in children if isinstance(each, Name))
        return Drop(kind, name, _has(children, "if_exists"), _has(children, "delete_topic"), place_of(meta))

    def terminate(self, meta: Meta, children: Children) -> Terminate:
        name: Name = children[0]
        return Terminate(None if name.folded == "ALL" else name, place_of(meta))

    def set(self, meta: Meta, children: Children) -> Set:
        name, value = children
        return Set(unquoted(name), unquoted(value) if value.type == "STRING" else str(value), place_of(meta))

    def unset(self, meta: Meta, children: Children) -> Set:
        return Set(unquoted(children[0]), None, place_of(meta))


# Rules named like keywords of Python.
setattr(Build, "lambda", Build.lambda_)
setattr(Build, "with", Build.with_)
