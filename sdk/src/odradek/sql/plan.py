"""Plans of Spark's work, as plain data: they can be printed, compared and tested without Spark.

    inputs    each topic becomes the view `records_N`, then by `sql` the view `input_N`; where late records matter, by
              `sql` the view `observed_N` with the stream time at each record, then by `on_time` the view `input_N`,
              under a watermark
    sql       one statement over the inputs: the query's result
    sink      one statement over the view `result`: key, value, timestamp of the records to write

Texts are Spark SQL. EXPLAIN prints such a plan; the golden tests compare it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from odradek.sql.catalog import Column, Form, Source
from odradek.sql.planning.upgrades import Basis
from odradek.sql.types import SqlType

RESULT = "result"
_INTERNAL = "_odradek_"  # topics of the service itself, and those between the steps of queries


@dataclass(frozen=True, slots=True)
class Codec:
    """A function of Spark, in Python, that reads or writes keys or values of a format with schemas."""

    function: str
    part: str  # key | value
    topic: str
    form: Form
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Input:
    """A topic that a query reads."""

    topic: str
    read: str  # stream: records as they arrive; table: the latest of each key, and history: all versions of it, both
    # looked up in each micro-batch; batch
    records: str  # view of the topic's records
    view: str  # view of the columns
    sql: str  # from `records` to `view`
    watermark_ms: int | None = None  # how far the watermark stays behind stream time; None: no watermark
    codecs: tuple[Codec, ...] = ()
    has_headers: bool = False  # reads the headers of records
    history_ms: int = 0  # of history: how far back
    observed: str = ""  # view of the columns with the stream time at each record, __stream_ms; empty: not needed
    on_time: str = ""  # from `observed` to `view`
    event_time: str = "__time"  # the column under the watermark


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that is created if it is missing."""

    name: str
    partitions: int | None  # None: as many as `like` has, else the service's default
    configs: tuple[tuple[str, str], ...] = ()
    like: str = ""


@dataclass(frozen=True, slots=True)
class Sink:
    """The destination of the result."""

    topic: Topic
    sql: str
    codecs: tuple[Codec, ...] = ()


@dataclass(frozen=True, slots=True)
class Maintained:
    """A result that is computed again whenever an input changes: what differs from before is written."""

    session_ms: int = 0  # the gap of session windows: rows of open sessions are kept; 0: the inputs are tables
    grace_ms: int = 0
    grouped: str = ""  # Spark SQL over the rows `arrived`: each with its group, a text
    open_rows: str = ""  # Spark SQL over input_1: the rows of sessions that end at `:cut` (ms) or later
    groups: Input | None = None  # the records of the result whose groups have no rows any more
    undone: str = ""  # Spark SQL over the columns of `groups`: the rows of the result that stay


@dataclass(frozen=True, slots=True)
class Eager:
    """An outer join of two streams: each record is joined when it arrives. Nothing that was written is taken back."""

    span_ms: int  # the largest difference of the times of two records that are joined
    retention_ms: int  # how long a record is kept for those of the other stream, behind the newest of its partition
    grace_ms: int | None = None  # how long a row without a match waits beyond its window; None: it is written at once
    ahead_ms: tuple[int | None, int | None] = (None, None)  # with a grace period: how far ahead of a record of each
    # input a match may be; None: no row without a match is written


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """One query with its inputs."""

    query_id: str  # names the checkpoint of a persistent query
    mode: str  # stream | batch
    inputs: tuple[Input, ...]
    sql: str
    columns: tuple[tuple[str, str], ...]  # the columns a user sees: names and types, "" if not known
    output_mode: str = "append"  # append | update; of a stream
    sink: Sink | None = None
    starting_offsets: str = "earliest"
    corrupt_batches: str = ""  # the source's option corruptBatches; empty: as the session has it
    limit: int | None = None
    maintained: Maintained | None = None
    eager: Eager | None = None
    by_time: bool = False  # the records of a micro-batch are written in the order of their times, those of one key
    notes: tuple[str, ...] = ()
    has_having: bool = False  # tombstones of groups that were never written are left out
    marks_deleted: bool = False  # the result has one column more: True for a row that left its table
    basis: Basis | None = None  # of a persistent query: what its checkpoint belongs to

    def document(self) -> dict[str, Any]:
        """Return the plan as JSON, without unset fields."""
        found = asdict(replace(self, basis=None))
        for each in found["inputs"]:
            for name in ("history_ms", "observed", "on_time"):
                if not each[name]:
                    del each[name]
            if each["event_time"] == "__time":
                del each["event_time"]
        return {name: value for name, value in found.items() if value not in (None, "", (), {}) and value is not False}


# --- the actions of statements


@dataclass(frozen=True, slots=True)
class Declared:
    """A stream or table over a topic that exists, or that is created with so many partitions."""

    source: Source
    topic: Topic


@dataclass(frozen=True, slots=True)
class Started:
    """A persistent query; `source` is the stream or table that it creates, None for INSERT INTO."""

    plan: QueryPlan
    source: Source | None
    replaces: tuple[str, ...] = ()  # ids of the queries that it replaces
    stages: tuple[QueryPlan, ...] = ()  # queries before it, in order: their streams are of this query alone


@dataclass(frozen=True, slots=True)
class Selected:
    """A query for the screen."""

    plan: QueryPlan
    types: tuple[SqlType | None, ...] = ()  # of its columns, where they are known
    prints: bool = False  # the records of a topic: see running/printed.py


@dataclass(frozen=True, slots=True)
class Inserted:
    """Rows to write once."""

    plan: QueryPlan
    rows: int


@dataclass(frozen=True, slots=True)
class Shown:
    """A table for the screen."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class ShownTopics:
    """The topics of the installation, for the screen; internal ones only if `all`."""

    all: bool = False

    def of(self, partitions: Mapping[str, int]) -> dict[str, int]:
        """Return those of the topics that are shown, by name, with their partition counts."""
        return {name: n for name, n in sorted(partitions.items()) if self.all or not name.startswith(_INTERNAL)}


@dataclass(frozen=True, slots=True)
class Said:
    """A message for the screen."""

    text: str


@dataclass(frozen=True, slots=True)
class Dropped:
    """A stream or table that was dropped."""

    name: str
    stop: tuple[str, ...]  # queries that are stopped with it
    delete_topic: str  # empty: the topic stays
    between: tuple[str, ...] = ()  # with it: the topics between the steps of its query
    served: str = ""  # the served table that ends with it


@dataclass(frozen=True, slots=True)
class Terminated:
    """Queries to stop; their checkpoints stay."""

    query_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Resumed:
    """Paused queries to start again."""

    plans: tuple[QueryPlan, ...]


@dataclass(frozen=True, slots=True)
class Asserted:
    """What must be so before the next statement: a topic or a schema exists, or does not."""

    topic: str = ""
    partitions: int | None = None
    subject: str = ""
    schema_id: int | None = None
    exists: bool = True
    timeout_ms: int = 1000


@dataclass(frozen=True, slots=True)
class OfConnectors:
    """A statement about connectors, for the Connect cluster of a server."""

    verb: str  # create | drop | list | describe | plugins
    name: str = ""
    kind: str = ""  # source | sink; of a list: empty for both
    configs: tuple[tuple[str, str], ...] = ()
    is_lenient: bool = False  # IF [NOT] EXISTS


@dataclass(frozen=True, slots=True)
class Configured:
    """A property of Spark for later queries; None resets it."""

    name: str
    value: str | None


Action = (
    Declared | Started | Selected | Inserted | Shown | ShownTopics | Said | Dropped | Terminated | Resumed | Asserted
    | OfConnectors | Configured
)  # fmt: skip
