"""The contents of a script as plain data: statements, queries and expressions, each with its position in the script.

The names are those of ksqlDB's reference. Nothing is resolved or checked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from odradek.sql.position import Position


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier: in upper case unless it was quoted."""

    text: str
    at: Position = field(compare=False)
    written: str = field(default="", compare=False)  # in the case of the script

    @property
    def folded(self) -> str:
        return self.text.upper()


@dataclass(frozen=True, slots=True)
class TypeName:
    """VARCHAR, DECIMAL(10, 2), ARRAY<INT>, MAP<VARCHAR, INT>, STRUCT<a INT, b DATE>."""

    name: str  # upper case
    at: Position = field(compare=False)
    numbers: tuple[int, ...] = ()
    inner: tuple[TypeName, ...] = ()
    fields: tuple[str, ...] = ()  # names of inner, for a STRUCT


# --- expressions: equality ignores positions, so that GROUP BY expressions are found in SELECT


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, a string, a truth value or NULL."""

    kind: str  # number | string | boolean | null | date | timestamp
    text: str
    at: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """`name` or `source.name`; the latter may turn out to be a struct's field."""

    name: Name
    source: Name | None
    at: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A function with its arguments; `star` is COUNT(*)."""

    name: Name
    arguments: tuple[Expression, ...]
    at: Position = field(compare=False)
    star: bool = False
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator: its words in Spark's spelling, around and between the operands.

    unary: NOT, -, IS NULL, IS NOT NULL; binary: OR AND = <> < <= > >= + - * / % || LIKE; BETWEEN has three operands,
    IN one and its list, CASE pairs of condition and value and at last the default, with `has_operand` before all.
    """

    operator: str
    operands: tuple[Expression, ...]
    at: Position = field(compare=False)
    has_operand: bool = False  # CASE x WHEN ...
    has_default: bool = False  # CASE ... ELSE ...


@dataclass(frozen=True, slots=True)
class Cast:
    """CAST(operand AS type)."""

    operand: Expression
    type: TypeName
    at: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class Field:
    """`operand->name`."""

    operand: Expression
    name: Name
    at: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class Subscript:
    """`operand[index]`: of an array from 1, negative from its end; of a map by key."""

    operand: Expression
    index: Expression
    at: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class Construct:
    """ARRAY[...], MAP(k := v, ...), STRUCT(name := value, ...)."""

    kind: str  # ARRAY | MAP | STRUCT
    keys: tuple[Expression | Name, ...]  # empty for ARRAY
    values: tuple[Expression, ...]
    at: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class Lambda:
    """`x => body` or `(x, y) => body`."""

    parameters: tuple[Name, ...]
    body: Expression
    at: Position = field(compare=False)


Expression: TypeAlias = "Literal | ColumnRef | Call | Operation | Cast | Field | Subscript | Construct | Lambda"


# --- queries


@dataclass(frozen=True, slots=True)
class Duration:
    """`30 SECONDS`."""

    ms: int
    at: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class SelectItem:
    """`expression AS alias`, or a star: `*`, `source.*` or `struct->*`."""

    expression: Expression | None  # None: a star
    alias: Name | None
    source: Name | None  # of `source.*`
    at: Position = field(compare=False)
    is_struct_star: bool = False  # all fields of the expression


@dataclass(frozen=True, slots=True)
class SourceRef:
    """A stream or table in FROM or JOIN."""

    name: Name
    alias: Name | None


@dataclass(frozen=True, slots=True)
class Within:
    """WITHIN before [, after] [GRACE PERIOD grace]."""

    before: Duration
    after: Duration
    grace: Duration | None
    at: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class Join:
    """One JOIN with its condition."""

    kind: str  # INNER | LEFT | RIGHT | FULL
    source: SourceRef
    within: Within | None
    condition: Expression
    at: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class Window:
    """WINDOW TUMBLING (SIZE ...), HOPPING or SESSION."""

    kind: str  # TUMBLING | HOPPING | SESSION
    size: Duration  # of a session: the gap that ends it
    advance: Duration | None  # HOPPING only
    retention: Duration | None
    grace: Duration | None
    at: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class Query:
    """SELECT ..."""

    items: tuple[SelectItem, ...]
    source: SourceRef
    joins: tuple[Join, ...]
    window: Window | None
    where: Expression | None
    group_by: tuple[Expression, ...]
    partition_by: tuple[Expression, ...]
    having: Expression | None
    emit: str  # CHANGES | FINAL | "" for the present state
    limit: int | None
    at: Position = field(compare=False)


# --- statements


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """A column of CREATE: its role is KEY, PRIMARY KEY, HEADERS, HEADER or none."""

    name: Name
    type: TypeName
    role: str
    header: str = ""  # the name of the header, of HEADER('name')


@dataclass(frozen=True, slots=True)
class Property:
    """One `NAME = value` of WITH."""

    name: Name
    value: str
    at: Position = field(compare=False)  # of the value


@dataclass(frozen=True, slots=True)
class Create:
    """CREATE STREAM | TABLE with columns, or AS SELECT."""

    kind: str  # STREAM | TABLE
    name: Name
    or_replace: bool
    if_not_exists: bool
    columns: tuple[ColumnDefinition, ...] | None
    properties: tuple[Property, ...]
    query: Query | None
    at: Position = field(compare=False)
    is_source: bool = False  # CREATE SOURCE: read only


@dataclass(frozen=True, slots=True)
class InsertSelect:
    """INSERT INTO target SELECT ..."""

    target: Name
    query: Query
    at: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class InsertValues:
    """INSERT INTO target [(columns)] VALUES (...), (...)."""

    target: Name
    columns: tuple[Name, ...]
    rows: tuple[tuple[Expression, ...], ...]
    at: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class Show:
    """SHOW | LIST STREAMS | TABLES | [ALL] TOPICS | QUERIES | PROPERTIES | FUNCTIONS | TYPES | VARIABLES [EXTENDED].

    SHOW [SOURCE | SINK] CONNECTORS and SHOW CONNECTOR PLUGINS as well.
    """

    what: str
    at: Position = field(compare=False)
    extended: bool = False
    kind: str = ""  # of connectors: SOURCE | SINK; empty: both
    all: bool = False  # internal topics, too


@dataclass(frozen=True, slots=True)
class Describe:
    """DESCRIBE name [EXTENDED], or DESCRIBE FUNCTION | CONNECTOR name."""

    name: Name
    at: Position = field(compare=False)
    extended: bool = False
    is_function: bool = False
    is_connector: bool = False


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN of a statement, or of a running query by its id."""

    statement: Create | InsertSelect | Query | None
    query_id: Name | None
    at: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class Drop:
    """DROP STREAM | TABLE [IF EXISTS] name [DELETE TOPIC]."""

    kind: str
    name: Name
    if_exists: bool
    delete_topic: bool
    at: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class Terminate:
    """TERMINATE id | ALL."""

    query_id: Name | None  # None: all
    at: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class Set:
    """SET 'name' = 'value'; UNSET has no value."""

    name: str
    value: str | None
    at: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class CreateType:
    """CREATE TYPE [IF NOT EXISTS] name AS type; DROP TYPE [IF EXISTS] name has no type."""

    name: Name
    type: TypeName | None
    is_lenient: bool
    at: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class CreateConnector:
    """CREATE SOURCE | SINK CONNECTOR [IF NOT EXISTS] name WITH (...)."""

    kind: str  # SOURCE | SINK
    name: Name
    if_not_exists: bool
    properties: tuple[Property, ...]
    at: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class DropConnector:
    """DROP CONNECTOR [IF EXISTS] name."""

    name: Name
    if_exists: bool
    at: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class Define:
    """DEFINE name = 'value'; UNDEFINE has no value. parse.py has replaced the variables already."""

    name: Name
    value: str | None
    at: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class Pause:
    """PAUSE | RESUME id | ALL."""

    query_id: Name | None  # None: all
    resume: bool
    at: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class Alter:
    """ALTER STREAM | TABLE name ADD [COLUMN] name type, ..."""

    kind: str
    name: Name
    columns: tuple[ColumnDefinition, ...]
    at: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class AssertTopic:
    """ASSERT [NOT EXISTS] TOPIC name [WITH (PARTITIONS = n)] [TIMEOUT n SECONDS]."""

    topic: str
    exists: bool
    properties: tuple[Property, ...]
    timeout: Duration | None
    at: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class AssertSchema:
    """ASSERT [NOT EXISTS] SCHEMA [SUBJECT name] [ID n] [TIMEOUT n SECONDS]."""

    subject: str
    schema_id: int | None
    exists: bool
    timeout: Duration | None
    at: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class Print:
    """PRINT topic [FROM BEGINNING] [SAMPLE | INTERVAL n] [LIMIT n]."""

    topic: str
    from_beginning: bool
    every: int  # of each partition, the records of so many offsets give one
    limit: int | None
    at: Position = field(compare=False)


Statement: TypeAlias = (
    Create | CreateType | InsertSelect | InsertValues | Show | Describe | Explain | Drop | Terminate | Pause | Set
    | Define | Alter | AssertTopic | AssertSchema | CreateConnector | DropConnector | Print | Query
)  # fmt: skip
