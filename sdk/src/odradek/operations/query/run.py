"""A query from its text to an Arrow table.

    1 read       the text: names of topics, AS OF
    2 fix        the offsets up to which each topic is read, all heads in one consistent look: the query begins here
    3 columns    the registry and a sample say which typed columns a topic has
    4 run        DuckDB over the topics, and nothing else: no file, no network, no setting can be reached from SQL

Only statements that read are run: SELECT, FROM, WITH, VALUES, DESCRIBE, SHOW, SUMMARIZE, PIVOT, EXPLAIN.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odradek.errors import ErrorCode, FormatError, KafkaError
from odradek.extras import extra
from odradek.model.topic_partition import TopicPartition
from odradek.operations.query.statement import Moment, Statement, quoted, read_statement

if TYPE_CHECKING:
    import pyarrow as pa

    from odradek.operations.query.topic import QueryLog, Ranges, TopicDataset

SAMPLE_RECORDS = 250  # at each end of a partition, to find the typed columns
_READS = ("SELECT", "EXPLAIN", "MULTI")  # MULTI: PIVOT
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


def run_query(sql: str, store: Mapping[str, str] | Path | str = ".odradek", *, allow_files: bool = False) -> Answer:
    """Run SQL over topics. Arguments and errors as of `query`."""
    with extra("query"):
        import duckdb

        from odradek.operations.query.topic import QueryLog
        from odradek.spark.options import EMBEDDED_PREFIX, STORE_OPTIONS, known_options, parse_store

    statement = read_statement(sql)
    given = {"store": f"{EMBEDDED_PREFIX}{store}"} if isinstance(store, Path | str) else store
    options = parse_store(known_options(given, tuple(STORE_OPTIONS), {}))
    connection = _connection(allow_files)
    try:
        _check_reads(connection, statement.text, allow_files)
        with QueryLog(options) as log:
            return _Run(connection, log, statement, allow_files).answer()
    except duckdb.Error as error:
        raise _refused(error) from error
    finally:
        connection.close()


def _connection(allow_files: bool) -> Any:
    """Open a DuckDB that keeps nothing, installs nothing and sees none of this process's variables."""
    import duckdb

    connection = duckdb.connect(
        config={
            "python_enable_replacements": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "enable_external_access": allow_files,
        }
    )
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def _check_reads(connection: Any, text: str, allow_files: bool) -> None:
    """Raise KafkaError(INVALID_REQUEST) unless the text is one statement that reads."""
    statements = connection.extract_statements(text)
    if len(statements) != 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"give one statement, not {len(statements)}")
    kind = statements[0].type.name
    if kind not in _READS and not (kind == "COPY" and allow_files):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"{kind} is not a query: topics are read by SELECT. Records are written with `odradek produce`, topics "
            "created with `odradek topics create`",
        )


class _Run:
    """One query on an open store."""

    def __init__(self, connection: Any, log: QueryLog, statement: Statement, allow_files: bool) -> None:
        self._connection = connection
        self._log = log
        self._statement = statement
        self._allow_files = allow_files
        self._datasets: dict[str, list[TopicDataset]] = {}
        self._ends: dict[str, dict[int, int]] = {}
        self._names = log.topic_names()

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
            self._register(relation, topic, ids, ranges)
        self._connection.execute("SET lock_configuration = true")
        try:
            table = self._connection.sql(self._statement.text).to_arrow_table()
        except Exception as error:
            raise self._explained(error) from error
        misfits = {topic: max(each.misfits for each in values) for topic, values in self._datasets.items()}
        return Answer(table, self._ends, {topic: count for topic, count in misfits.items() if count})

    def _relations(self) -> dict[str, tuple[str, Moment | None]]:
        """Return topic and moment of each table that the query names, and that is a topic.

        Raises KafkaError(UNKNOWN_TOPIC_OR_PARTITION) that names the closest topic.
        """
        found: dict[str, tuple[str, Moment | None]] = {}
        for name in sorted(self._tables()):
            asked, moment = self._statement.moments.get(name, (name, None))
            topic = self._topic(asked)
            if topic is not None:
                found[name] = (topic, moment)
            elif not self._allow_files and not name.lower().startswith(_SYSTEM):
                raise self._unknown(asked)
        return found

    def _tables(self) -> set[str]:
        """Return the names of tables that the query reads and does not itself define."""
        analyst = _connection(allow_files=False)  # by itself: an analysis that fails ends its transaction
        try:
            found = set(analyst.get_table_names(self._statement.text, qualified=False))
            return found or self._candidates()  # none of DESCRIBE, SUMMARIZE, PIVOT
        except Exception:  # it wants the columns of tables, or another kind of statement; a wrong one fails later
            return self._candidates()
        finally:
            analyst.close()

    def _candidates(self) -> set[str]:
        """Return the identifiers of the text that are topics."""
        words = re.findall(r'"((?:[^"]|"")*)"|(\w+)', self._statement.text)
        names = {(inside.replace('""', '"') or word) for inside, word in words}
        return {name for name in names if self._topic(name) is not None}

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

    def _register(self, relation: str, topic: str, ids: Mapping[Any, Any], ranges: Ranges) -> None:
        from odradek.operations.query.topic import TopicDataset, sample
        from odradek.operations.query.values import with_sampled
        from odradek.spark.source.typed import typed_values

        columns = [(each.name, each.kind) for each in self._log.columns_of(topic).columns]
        declared = typed_values(self._log, topic, columns)
        values = with_sampled(declared, sample(self._log, ids, ranges, SAMPLE_RECORDS), self._log)
        self._ends[topic] = {place.partition: end for place, (_, end) in ranges.items()}
        dataset = TopicDataset(self._log, ids, ranges, values)
        self._datasets.setdefault(topic, []).append(dataset)
        self._connection.register(relation, dataset)

    def _explained(self, error: Exception) -> Exception:
        """Return the error of the store for one that DuckDB passes on, else the error itself."""
        match = _MISSING_TABLE.search(str(error))
        if match is not None and not self._allow_files:
            return self._unknown(self._statement.moments.get(match[1], (match[1], None))[0])
        cause: BaseException | None = error
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
