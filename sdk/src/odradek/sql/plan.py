"""What Spark is to do, as plain data: it can be printed, compared and tested without Spark.

    inputs    each topic becomes the view `records_N`, then by `sql` the view `input_N`, under a watermark if it has one
    sql       one statement over the inputs: the query's result
    sink      one statement over the view `result`: key, value, timestamp of the records to write

Texts are Spark SQL. EXPLAIN prints such a plan; the golden tests compare it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from odradek.sql.catalog import Source

RESULT = "result"


@dataclass(frozen=True, slots=True)
class Input:
    """One topic that a query reads."""

    topic: str
    read: str  # stream: records as they come; table: the latest of each key, looked up in each micro-batch; batch
    records: str  # view of the topic's records
    view: str  # view of the columns
    sql: str  # from one to the other
    watermark_ms: int | None = None  # how late a record may be after a newer one; None: no watermark


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic to be made where it is missing."""

    name: str
    partitions: int | None  # None: as many as `like` has, else the service's default
    configs: tuple[tuple[str, str], ...] = ()
    like: str = ""


@dataclass(frozen=True, slots=True)
class Sink:
    """Where the result goes."""

    topic: Topic
    sql: str


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """One query."""

    query_id: str  # names the checkpoint of a persistent query
    mode: str  # stream | batch
    inputs: tuple[Input, ...]
    sql: str
    columns: tuple[tuple[str, str], ...]  # what a user sees: names and types, "" where not known
    output_mode: str = "append"  # append | update; of a stream
    sink: Sink | None = None
    starting_offsets: str = "earliest"
    limit: int | None = None
    notes: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """The plan as JSON, without what is not set."""
        return {name: value for name, value in asdict(self).items() if value not in (None, "", (), {})}


# --- what a statement comes to


@dataclass(frozen=True, slots=True)
class Declared:
    """A stream or table over a topic that is there, or is to be made with so many partitions."""

    source: Source
    topic: Topic


@dataclass(frozen=True, slots=True)
class Started:
    """A persistent query; `source` is what it makes, None for INSERT INTO."""

    plan: QueryPlan
    source: Source | None
    replaces: str = ""  # id of the query that it takes the place of


@dataclass(frozen=True, slots=True)
class Selected:
    """A query for the screen."""

    plan: QueryPlan


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
    """The topics of the installation, for the screen."""


@dataclass(frozen=True, slots=True)
class Said:
    """A sentence or a text for the screen."""

    text: str


@dataclass(frozen=True, slots=True)
class Dropped:
    """A name that means nothing any more."""

    name: str
    stop: tuple[str, ...]  # queries that end with it
    delete_topic: str  # empty: the topic stays


@dataclass(frozen=True, slots=True)
class Terminated:
    """Queries to stop; their checkpoints stay."""

    query_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Configured:
    """A property of Spark for the queries that follow; None takes it back."""

    name: str
    value: str | None


Action = Declared | Started | Selected | Inserted | Shown | ShownTopics | Said | Dropped | Terminated | Configured
