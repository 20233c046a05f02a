"""A query from its text to an Arrow table.

    1 read       the text: names of topics, AS OF
    2 fix        the offsets up to which each topic is read, all heads in one consistent look: the query begins here
    3 columns    the registry and a sample say which typed columns a topic has
    4 run        DuckDB over the topics, and nothing else: no other file, no network, no setting can be reached from SQL

Only statements that read are run: SELECT, FROM, WITH, VALUES, DESCRIBE, SHOW, SUMMARIZE, PIVOT, EXPLAIN.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odradek.errors import ErrorCode, FormatError, KafkaError
from odradek.extras import extra
from odradek.model.topic_partition import TopicPartition
from odradek.operations.query.analysis import Analysis, analyse, identifiers, new_connection
from odradek.operations.query.query_bounds import QueryBounds
from odradek.operations.query.statement import Moment, Statement, literal, quoted, read_statement

if TYPE_CHECKING:
    import pyarrow as pa

    from odradek.columnar.typed.typed_values import TypedValues
    from odradek.operations.query.history import ParsedColumn
    from odradek.operations.query.topic import QueryLog, Ranges, TopicDataset
    from odradek.spark.options import StoreOptions

SAMPLE_RECORDS = 250  # at each end of a partition, to find the typed columns
_REPLANS = 3  # of a query whose files maintenance replaces
_MISSING_TABLE = re.compile(r"Table with name (.+?) does not exist", re.DOTALL)
_SYSTEM = ("information_schema.", "pg_catalog.", "duckdb_", "pragma_")


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a query.

    Attributes:
        table: the rows.
        ends: offsets up to which each partition was read, exclusive: by topic, then by partition.
        misfits: by topic, values read that did not fit the typed columns that were asked for; they count as nulls.
    """

    table: pa.Table
    ends: dict[str, dict[int, int]]
    misfits: dict[str, int]


def query(sql: str, store: Mapping[str, str] | Path | str = ".odradek", *, allow_files: bool = False) -> pa.Table:
    """Run SQL over topics, and return the rows as an Arrow table. Needs the extra `query`; no JVM, no service.

    Args:
        sql: DuckDB's SQL; names of tables are topics, and `FROM t AS OF '2026-11-22T10:00'` is a topic at that time.
        store: the folder of an embedded service, which may be running, or the options of a store as those of Spark's
            source: `{"store": "aws", "logTable": ..., "catalogTable": ..., "bucket": ...}`, with one's credentials.
        allow_files: SQL may also read and write files that this process can reach.

    Raises KafkaError: INVALID_REQUEST for SQL that is wrong, UNKNOWN_TOPIC_OR_PARTITION for a table that is no topic,
    INVALID_CONFIG for a store that cannot be opened; MissingExtra.
    """
    return run_query(sql, store, allow_files=allow_files).table


def run_query(
    sql: str,
    store: Mapping[str, str] | Path | str = ".odradek",
    *,
    allow_files: bool = False,
    bounds: QueryBounds | None = None,
) -> Answer:
    """Run SQL over topics. Arguments and errors as of `query`; within bounds also theirs."""
    with extra("query"):
        import duckdb

        from odradek.operations.query.topic import QueryLog
        from odradek.spark.options import EMBEDDED_PREFIX, STORE_OPTIONS, known_options, parse_store

    statement = read_statement(sql)
    given = {"store": f"{EMBEDDED_PREFIX}{store}"} if isinstance(store, Path | str) else store
    options = parse_store(known_options(given, tuple(STORE_OPTIONS), {}))
    try:
        analysis = analyse(statement.text, allow_files=allow_files)
        with QueryLog(options) as log:
            return _Run(log, options, statement, analysis, allow_files, bounds).answer()
    except duckdb.Error as error:
        raise _refused(error) from error


def _close_in(connection: Any, paths: Sequence[str] = ()) -> None:
    """Let a DuckDB reach these files alone from now on."""
    if paths:
        connection.execute(f"SET allowed_paths = [{', '.join(map(literal, paths))}]")
    connection.execute("SET enable_external_access = false")


class _FileGone(Exception):
    """A file that the query was to read is no longer there."""


class _TopicRead:
    """A relation of a query: a topic up to fixed offsets.

    Args:
        columns: that the query may use; None: any.
    """

    def __init__(
        self, relation: str, topic: str, ranges: Ranges, values: TypedValues, columns: frozenset[str] | None
    ) -> None:
        self._columns = columns
        self.relation = relation
        self.topic = topic
        self.ranges = ranges
        self._values = values
        self._dataset: TopicDataset | None = None
        self._parsed: dict[str, ParsedColumn] = {}

    @property
    def misfits(self) -> int:
        """Values read that did not fit the columns that were asked for."""
        of_rest = 0 if self._dataset is None else self._dataset.misfits
        return of_rest + max((each.misfits for each in self._parsed.values()), default=0)

    @property
    def failure(self) -> Exception | None:
        """Why the store did not say what was needed, where DuckDB cannot pass it on."""
        return next((each.failure for each in self._parsed.values() if each.failure is not None), None)

    def register(
        self, connection: Any, log: QueryLog, options: StoreOptions, ids: Mapping[Any, Any]
    ) -> tuple[str, ...]:
        """Make the relation of where the records lie now; return the files that DuckDB will open."""
        from odradek.operations.query.history import ParsedColumn, create_view, history
        from odradek.operations.query.topic import TopicDataset

        typed = [(each.name, each.kind) for each in log.columns_of(self.topic).columns]
        more = {each.name for each in self._values.columns} - {name for name, _ in typed}
        with_values = bool(more) or self._columns is None or "value" in self._columns
        found = history(log, options, ids, self.ranges, typed, with_values=with_values)
        self._dataset = TopicDataset(log, ids, found.rest, self._values)
        if not found.paths:
            connection.register(self.relation, self._dataset)
            return ()
        self._parsed = {name: ParsedColumn(name, self._values, log) for name in sorted(more)}
        create_view(connection, self.relation, self.topic, found.paths, self._dataset, self._parsed)
        return found.paths


class _Run:
    """One query on an open store."""

    def __init__(
        self,
        log: QueryLog,
        options: StoreOptions,
        statement: Statement,
        analysis: Analysis,
        allow_files: bool,
        bounds: QueryBounds | None,
    ) -> None:
        self._within = bounds
        self._log = log
        self._options = options
        self._statement = statement
        self._analysis = analysis
        self._allow_files = allow_files
        self._names = log.topic_names()
        self._topics: list[_TopicRead] = []

    def answer(self) -> Answer:
        from odradek.spark.options import Subscription  # like all that runs a query, it needs pyarrow

        relations = self._relations()
        ids = {}
        if relations:
            topics = tuple(dict.fromkeys(topic for topic, _ in relations.values()))
            ids = self._log.partitions(Subscription(topics=topics))
        bounds = self._log.bounds(ids)  # the query begins: all that was acknowledged before is below these ends
        now: Ranges = {place: (each.log_start_offset, each.next_offset) for place, each in bounds.items()}
        for relation, (topic, moment) in relations.items():
            ranges = self._at({place: ends for place, ends in now.items() if place.topic == topic}, moment)
            values = self._values(topic, ids, ranges)
            self._topics.append(_TopicRead(relation, topic, ranges, values, self._analysis.columns))
        for _ in range(_REPLANS):
            try:
                return self._run(ids)
            except _FileGone:
                for partition in ids.values():
                    self._log.forget(partition)
        return self._run(ids)

    def _values(self, topic: str, ids: Mapping[Any, Any], ranges: Ranges) -> TypedValues:
        """Return a reader of the topic's typed columns: those of its schema, then those that a sample has.

        Nothing is sampled for a statement that uses those of the schema alone.
        """
        from odradek.operations.query.topic import COLUMNS, sample
        from odradek.operations.query.values import with_sampled
        from odradek.spark.source.typed import typed_values

        columns = [(each.name, each.kind) for each in self._log.columns_of(topic).columns]
        declared = typed_values(self._log, topic, columns)
        known = {name.lower() for name in (*COLUMNS, *declared.schema.names)}
        if self._analysis.columns is not None and self._analysis.columns <= known:
            return declared
        return with_sampled(declared, sample(self._log, ids, ranges, SAMPLE_RECORDS), self._log)

    def _run(self, ids: Mapping[Any, Any]) -> Answer:
        """Run the statement over what holds the offsets now. Raises _FileGone: maintenance has replaced a file."""
        with new_connection() as connection:
            paths: list[str] = []
            for each in self._topics:
                paths += each.register(connection, self._log, self._options, ids)
            if not self._allow_files:
                _close_in(connection, paths)
            if self._within is not None:
                self._within.begin(connection)
            connection.execute("SET lock_configuration = true")
            try:
                relation = connection.sql(self._statement.text)
                table = relation.to_arrow_table() if self._within is None else self._within.read(relation)
            except KafkaError:
                raise
            except Exception as error:
                if not all(map(os.path.exists, paths)):
                    raise _FileGone from error
                raise self._explained(error) from error
            finally:
                if self._within is not None:
                    self._within.end()
        misfits: dict[str, int] = {}
        for each in self._topics:
            misfits[each.topic] = max(each.misfits, misfits.get(each.topic, 0))
        ends = {each.topic: {place.partition: end for place, (_, end) in each.ranges.items()} for each in self._topics}
        return Answer(table, ends, {topic: count for topic, count in misfits.items() if count})

    def _relations(self) -> dict[str, tuple[str, Moment | None]]:
        """Return topic and moment of each table that the query names, and that is a topic.

        Raises KafkaError(UNKNOWN_TOPIC_OR_PARTITION) that names the closest topic.
        """
        found: dict[str, tuple[str, Moment | None]] = {}
        for name in sorted(self._analysis.tables or self._candidates()):
            asked, moment = self._statement.moments.get(name, (name, None))
            topic = self._topic(asked)
            if topic is not None:
                found[name] = (topic, moment)
            elif not self._allow_files and not name.lower().startswith(_SYSTEM):
                raise self._unknown(asked)
        return found

    def _candidates(self) -> set[str]:
        """Return the identifiers of the text that are topics."""
        return {name for name in identifiers(self._statement.text) if self._topic(name) is not None}

    def _topic(self, name: str) -> str | None:
        """Return the topic of a table: SQL does not distinguish upper and lower case, topics do."""
        asked = self._statement.moments.get(name, (name, None))[0]
        if asked in self._names:
            return asked
        alike = [each for each in self._names if each.lower() == asked.lower()]
        return alike[0] if len(alike) == 1 else None

    def _unknown(self, name: str) -> KafkaError:
        close = difflib.get_close_matches(name, self._names, n=1) or [
            each for each in self._names if name.lower() in each.lower()
        ]
        if close:
            advice = (
                f"did you mean {close[0] if re.fullmatch('[A-Za-z_][A-Za-z0-9_]*', close[0]) else quoted(close[0])}?"
            )
        else:
            advice = "`odradek topics list` lists the topics"
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}: {advice}")

    def _at(self, ranges: Ranges, moment: Moment | None) -> dict[TopicPartition, tuple[int, int]]:
        """Return the ranges as they were at a moment."""
        if moment is None:
            return dict(ranges)
        if moment.timestamp_ms is not None:
            later = self._log.offsets_at(list(ranges), moment.timestamp_ms + 1)
            return {
                place: (first, max(first, min(later.get(place, end), end))) for place, (first, end) in ranges.items()
            }
        unknown = [each for each in moment.offsets if all(each != place.partition for place in ranges)]
        if unknown:
            topic = next(iter(ranges)).topic if ranges else "the topic"
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"AS OF: {topic} has no partition {unknown[0]}")
        asked = moment.offsets
        return {
            place: (first, max(first, min(asked[place.partition], end)))
            for place, (first, end) in ranges.items()
            if place.partition in asked
        }

    def _explained(self, error: Exception) -> Exception:
        """Return the error of the store for one that DuckDB passes on, else the error itself."""
        match = _MISSING_TABLE.search(str(error))
        if match is not None and not self._allow_files:
            return self._unknown(self._statement.moments.get(match[1], (match[1], None))[0])
        cause: BaseException | None = next((each.failure for each in self._topics if each.failure), error)
        while cause is not None:
            if isinstance(cause, KafkaError | FormatError):
                return _as_kafka(cause)
            cause = cause.__cause__ or cause.__context__
        return error


def _as_kafka(error: KafkaError | FormatError) -> KafkaError:
    """Return an error of the store as a KafkaError."""
    return error if isinstance(error, KafkaError) else KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))


def _refused(error: Exception) -> KafkaError:
    """Return DuckDB's message: what is wrong, what is close to it, and the line with a caret."""
    text = re.sub(r"^\w+( \w+)? Error: ", "", str(error)).strip()
    if "file system operations are disabled" in text:
        text = text.partition("\n")[0] + ". To let SQL read and write files, use --allow-files (allow_files=True)"
    return KafkaError(ErrorCode.INVALID_REQUEST, text)
