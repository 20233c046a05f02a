"""The permissions of each function and job on the store: the table from which the roles are built.

A role names its tables, prefixes and actions; nothing is granted "to be safe". The rows:

    produce      appends: WAL objects and items, heads, index and producer rows; reads topics; adds batches to
                 transactions: pending items, the row of a transactional id
    fetch        reads only
                 (these two and the next two also read the ACLs)
    coordinator  share groups: reads records for them, writes their dead letters as numbered batches, and deletes the
                 numbers with the group; creates internal topics of streams groups
                 groups; assigns producer ids (one row of the catalog); reads topics, and finishes growths; commits
                 transactions: heads and spilled entries, pending items, rows of transactional ids
    admin        topics, and the heads of their partitions (DeleteRecords too); deletes no object: maintenance does
    triggers     definitions of triggers; commits their starting offsets, reads their leases; deletes groups
    trigger-dispatcher   reads like fetch; leases with offsets; marks heads; appends to failure topics; its queue.
                 The functions that it may call are granted one by one (constructs/trigger.py)
                 Served tables: follows their topics, writes their rows, and rebuilds them
    tables       definitions of served tables; reads their rows, and writes them for a reader that waits for an offset
    registry     schemas and subjects: its rows of the catalog, and the ACLs
    maintenance  plans: reads the tables, and segments if compaction needs their age; sends to the queue
    maintainer   runs the tasks: finishes deletions; merges; fences transactions that timed out; retention, sweep: rows
                 of the log, segments, WAL objects and items; receives messages from the queue. With `-c tables=true`
                 ICEBERG_TABLES as well: tables of Glue's catalog, and their metadata
    gateway      the union of the functions' rows, except these two: it does everything that the others do
    JOBS         each reads like fetch; uploads like produce and commits the uploads as numbered batches: heads, spilled
                 entries, the row of its query; keeps output and checkpoint under a separate prefix; sql_job also
                 creates and drops topics; compact_topic replaces segments, under the maintenance lease

Keys of users and secrets of triggers are in the catalog too: dynamodb:LeadingKeys keep each function to the partition
keys that it may read (OPEN_KEYS) or write.

A test runs the engine and compares each function's calls with its row: a missing and an unused permission both fail.

TransactWriteItems is authorised by the actions of its parts, so it has no name here. S3 answers 403 instead of 404 for
a missing object unless the caller may list the bucket. A reader must tell "deleted, read the row again" from
"forbidden", so readers may list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from odradek.format.item_keys import (
    ACLS_PK,
    BATCHES_PK,
    BROKERS_PK,
    COUNTERS_PK,
    DELETED_TOPICS_PK,
    DROPPED_TABLES_PK,
    GROUP_CONFIGS_PK,
    GROWTHS_PK,
    LOGINS_PK,
    QUOTAS_PK,
    REGISTRY_CONFIGS_PK,
    REGISTRY_GUIDS_PK,
    REGISTRY_PK,
    REGISTRY_SCHEMAS_PK,
    REGISTRY_SUBJECTS_PK,
    SERVED_TABLES_PK,
    SWEEP_PK,
    TABLES_PK,
    TOPIC_IDS_PK,
    TOPICS_PK,
    TRANSACTIONAL_IDS_PK,
    TRIGGERS_PK,
    USERS_PK,
)
from odradek.functions.environment import MAINTAINER, MAINTENANCE, REGISTRY, TABLES, TRIGGER_DISPATCHER, TRIGGERS
from odradek.protocol.api import FunctionName

SEND = "sqs:SendMessage"
GET, GET_MANY, QUERY = "dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query"
PUT, UPDATE, DELETE = "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"
CHECK = "dynamodb:ConditionCheckItem"

WAL_PREFIX = "wal/"
SEGMENT_PREFIX = "topics/"
ICEBERG_PREFIX = "iceberg/"  # metadata of Iceberg tables
GATEWAY = "gateway"
FLIGHT_DELAYS = "flight_delays"
EXPORT_TABLE = "export_table"
SQL_JOB = "sql_job"
COMPACT_TOPIC = "compact_topic"
# Jobs that read the log, write topics with the sink, and keep checkpoint and output under a separate prefix.
JOBS = (
    FLIGHT_DELAYS,
    "windowed_aggregates",
    "stream_join",
    "table_join",
    "deduplicate",
    "word_count",
    "user_sessions",
    "top_charts",
    "import_table",
    "replay",
    EXPORT_TABLE,
    "mirror",
    SQL_JOB,
    COMPACT_TOPIC,
)
# Of these, the queries that may run all the time and write metrics every minute.
STREAMING_JOBS = tuple(name for name in JOBS if name not in (FLIGHT_DELAYS, "replay", SQL_JOB, COMPACT_TOPIC))


class TableName(StrEnum):
    """The tables: three of the log, and the rows of served tables."""

    LOG = "log"
    GROUPS = "groups"
    CATALOG = "catalog"
    ROWS = "rows"


@dataclass(frozen=True, slots=True)
class TableGrant:
    """Actions on one table; with `partition_keys` only on items under these (dynamodb:LeadingKeys)."""

    table: TableName
    actions: tuple[str, ...]
    partition_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ObjectGrant:
    """Actions on the objects under some prefixes."""

    prefixes: tuple[str, ...]
    actions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DatabaseGrant:
    """Actions on databases of the Glue data catalog, and on their tables; a name may end in `*`."""

    databases: tuple[str, ...]
    actions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Permissions:
    """All permissions of one role on the store, and on the queue of maintenance tasks."""

    tables: tuple[TableGrant, ...]
    objects: tuple[ObjectGrant, ...] = ()
    may_list: bool = False
    databases: tuple[DatabaseGrant, ...] = ()
    queue: tuple[str, ...] = ()  # actions on the queue
    wakes: tuple[str, ...] = ()  # actions on the queue that wakes triggers


_REGISTRY_KEYS = (REGISTRY_PK, REGISTRY_CONFIGS_PK, REGISTRY_SUBJECTS_PK, REGISTRY_SCHEMAS_PK, REGISTRY_GUIDS_PK)
# Of the catalog, what any function may read: neither keys and salts of users nor the secrets of triggers.
OPEN_KEYS = (
    *(TOPICS_PK, TOPIC_IDS_PK, DELETED_TOPICS_PK, GROWTHS_PK, COUNTERS_PK, TRANSACTIONAL_IDS_PK, BATCHES_PK),
    *(BROKERS_PK, ACLS_PK, QUOTAS_PK, GROUP_CONFIGS_PK, TABLES_PK, SERVED_TABLES_PK, DROPPED_TABLES_PK, SWEEP_PK),
    *_REGISTRY_KEYS,
)
# What an administrator's requests write.
ADMIN_KEYS = (
    *(TOPICS_PK, TOPIC_IDS_PK, DELETED_TOPICS_PK, GROWTHS_PK, COUNTERS_PK, TRANSACTIONAL_IDS_PK, BATCHES_PK),
    *(BROKERS_PK, ACLS_PK, QUOTAS_PK, GROUP_CONFIGS_PK, TABLES_PK, SWEEP_PK, USERS_PK, LOGINS_PK),
    *_REGISTRY_KEYS,  # schemas of values, in a table that is created with its columns
)
_READ_LOG = TableGrant(TableName.LOG, (GET, GET_MANY, QUERY))
_READ_TOPICS = TableGrant(TableName.CATALOG, (GET, QUERY), OPEN_KEYS)
_READ_ACLS = TableGrant(TableName.CATALOG, (QUERY,), partition_keys=(ACLS_PK, QUOTAS_PK))
_APPEND_LOG = TableGrant(TableName.LOG, (GET, QUERY, PUT, UPDATE))
_OPEN_TRANSACTIONS = TableGrant(TableName.CATALOG, (PUT,), partition_keys=(TRANSACTIONAL_IDS_PK,))
# Pending items, heads and spilled entries; in one transaction with leases and a row of the catalog.
_COMMIT_TRANSACTIONS = TableGrant(TableName.LOG, (GET, GET_MANY, QUERY, PUT, UPDATE, DELETE))
_TAKE_PRODUCER_ID = TableGrant(TableName.CATALOG, (UPDATE,), partition_keys=(COUNTERS_PK,))
_NUMBER_BATCHES = TableGrant(TableName.CATALOG, (PUT,), partition_keys=(BATCHES_PK,))
# CREATE and DROP of a script: rows of topics, and the heads of their partitions.
_MAKE_TOPICS = (TableGrant(TableName.CATALOG, (PUT, DELETE, CHECK), OPEN_KEYS), TableGrant(TableName.LOG, (DELETE,)))
# Of a compaction: rows that are removed, under the lease's condition; segments that are added and removed.
_REPLACE_ROWS = (TableGrant(TableName.LOG, (DELETE, CHECK)),)
_REPLACE_SEGMENTS = (ObjectGrant((SEGMENT_PREFIX,), ("s3:PutObject", "s3:DeleteObject")),)
_READ_OBJECTS = ObjectGrant((WAL_PREFIX, SEGMENT_PREFIX), ("s3:GetObject",))
# Of served tables: positions and rows, and a new generation where a topic was recreated.
_FOLLOW_TOPICS = (
    TableGrant(TableName.CATALOG, (PUT,), partition_keys=(SERVED_TABLES_PK, DROPPED_TABLES_PK)),
    TableGrant(TableName.ROWS, (GET_MANY, PUT, UPDATE, DELETE, CHECK)),
)
_UPLOAD_WAL = ObjectGrant((WAL_PREFIX,), ("s3:PutObject",))


_WRITE_TABLES = ("glue:GetDatabase", "glue:CreateDatabase", "glue:GetTable", "glue:CreateTable", "glue:UpdateTable")


def _job(name: str) -> Permissions:
    return Permissions(
        (
            TableGrant(TableName.LOG, (GET, GET_MANY, QUERY, PUT, UPDATE)),
            _READ_TOPICS,
            _NUMBER_BATCHES,
            *(_MAKE_TOPICS if name == SQL_JOB else ()),
            *(_REPLACE_ROWS if name == COMPACT_TOPIC else ()),
        ),
        (
            _READ_OBJECTS,
            _UPLOAD_WAL,
            *(_REPLACE_SEGMENTS if name == COMPACT_TOPIC else ()),
            ObjectGrant((f"jobs/{name}/",), ("s3:GetObject", "s3:PutObject", "s3:DeleteObject")),
        ),
        may_list=True,
        databases=(DatabaseGrant(("odradek_*",), _WRITE_TABLES),) if name == EXPORT_TABLE else (),
    )


def union(rows: Iterable[Permissions]) -> Permissions:
    """Return what any of the rows allows: an action on the keys that rows name, or on all if a row names none."""
    keys: dict[tuple[TableName, str], set[str] | None] = {}
    objects: dict[str, set[str]] = {}
    may_list = False
    wakes: set[str] = set()
    for row in rows:
        may_list |= row.may_list
        wakes |= {action for action in row.wakes if action == SEND}
        for table in row.tables:
            for action in table.actions:
                partition_keys = keys.setdefault((table.table, action), set())
                if partition_keys is not None and table.partition_keys:
                    partition_keys.update(table.partition_keys)
                else:
                    keys[table.table, action] = None
        for grant in row.objects:
            for action in grant.actions:
                objects.setdefault(action, set()).update(grant.prefixes)
    actions: dict[tuple[TableName, tuple[str, ...]], list[str]] = {}
    for (name, action), under in keys.items():
        actions.setdefault((name, tuple(sorted(under or ()))), []).append(action)
    return Permissions(
        tuple(TableGrant(name, tuple(grants), under) for (name, under), grants in actions.items()),
        tuple(ObjectGrant(tuple(sorted(prefixes)), (action,)) for action, prefixes in objects.items()),
        may_list=may_list,
        wakes=tuple(sorted(wakes)),
    )


_ROWS: dict[str, Permissions] = {
    FunctionName.PRODUCE.value: Permissions(
        (_APPEND_LOG, TableGrant(TableName.CATALOG, (GET,), OPEN_KEYS), _READ_ACLS, _OPEN_TRANSACTIONS),
        (_UPLOAD_WAL,),
        wakes=(SEND,),
    ),
    FunctionName.FETCH.value: Permissions(
        (_READ_LOG, TableGrant(TableName.CATALOG, (GET,), OPEN_KEYS), _READ_ACLS), (_READ_OBJECTS,), may_list=True
    ),
    FunctionName.COORDINATOR.value: Permissions(
        (
            TableGrant(TableName.GROUPS, (GET, GET_MANY, QUERY, PUT, UPDATE, DELETE, CHECK)),
            _READ_TOPICS,
            _TAKE_PRODUCER_ID,
            _OPEN_TRANSACTIONS,
            _COMMIT_TRANSACTIONS,
            _NUMBER_BATCHES,  # dead letters of share groups
            # Numbers go with the group; marks with a growth that another one makes void.
            TableGrant(TableName.CATALOG, (DELETE,), partition_keys=(BATCHES_PK, GROWTHS_PK)),
            # Of dead letters; and internal topics of streams groups: their rows, beside the heads in the log.
            TableGrant(TableName.CATALOG, (CHECK,), partition_keys=(TOPIC_IDS_PK, DELETED_TOPICS_PK, SWEEP_PK)),
            TableGrant(TableName.CATALOG, (PUT,), partition_keys=(TOPICS_PK, TOPIC_IDS_PK, GROWTHS_PK)),
            TableGrant(TableName.CATALOG, (UPDATE,), partition_keys=(TOPICS_PK,)),  # Metadata finishes growths
        ),
        (_READ_OBJECTS, _UPLOAD_WAL),  # share groups read records, and write dead letters
        may_list=True,
        wakes=(SEND,),
    ),
    FunctionName.ADMIN.value: Permissions(
        (
            TableGrant(TableName.CATALOG, (GET, PUT, UPDATE, DELETE, CHECK), ADMIN_KEYS),
            TableGrant(TableName.CATALOG, (QUERY,), partition_keys=(ACLS_PK, BROKERS_PK, QUOTAS_PK, USERS_PK)),
            TableGrant(TableName.LOG, (GET, PUT, UPDATE, DELETE)),
        )
    ),
    MAINTENANCE: Permissions(
        (
            TableGrant(TableName.GROUPS, (GET_MANY, QUERY)),  # the lag of groups, leases of triggers
            TableGrant(TableName.CATALOG, (GET, QUERY), (*OPEN_KEYS, TRIGGERS_PK)),  # what wakes triggers
            TableGrant(TableName.ROWS, (QUERY,)),  # how far served tables are
            _READ_LOG,
        ),
        (ObjectGrant((SEGMENT_PREFIX,), ("s3:GetObject",)),),
        may_list=True,
        queue=("sqs:SendMessage", "sqs:GetQueueAttributes"),
        wakes=(SEND,),
    ),
    MAINTAINER: Permissions(
        (
            TableGrant(TableName.GROUPS, (QUERY, DELETE)),  # windows of deleted topics
            TableGrant(TableName.CATALOG, (GET, QUERY, UPDATE, DELETE), OPEN_KEYS),
            _OPEN_TRANSACTIONS,
            TableGrant(TableName.LOG, (GET, GET_MANY, QUERY, PUT, UPDATE, DELETE, CHECK)),
        ),
        (
            ObjectGrant((WAL_PREFIX, SEGMENT_PREFIX), ("s3:DeleteObject",)),
            _READ_OBJECTS,
            ObjectGrant((SEGMENT_PREFIX,), ("s3:PutObject",)),
        ),
        may_list=True,
        # Required of the role by Lambda's pollers (Lambda developer guide, SQS event source).
        queue=("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"),
    ),
    TRIGGERS: Permissions(
        (
            TableGrant(TableName.GROUPS, (GET, GET_MANY, QUERY, PUT, UPDATE, DELETE)),
            TableGrant(TableName.CATALOG, (GET,), (*OPEN_KEYS, TRIGGERS_PK)),
            TableGrant(TableName.CATALOG, (QUERY,), partition_keys=(ACLS_PK, TRIGGERS_PK)),
            TableGrant(TableName.CATALOG, (PUT, DELETE), partition_keys=(TRIGGERS_PK,)),
            _READ_LOG,
        ),
        (_READ_OBJECTS,),  # AT_TIMESTAMP looks into segments
        may_list=True,
        wakes=(SEND,),
    ),
    TRIGGER_DISPATCHER: Permissions(
        (
            TableGrant(TableName.GROUPS, (GET_MANY, UPDATE)),
            TableGrant(TableName.CATALOG, (GET,), (*OPEN_KEYS, TRIGGERS_PK)),
            TableGrant(TableName.CATALOG, (QUERY,), partition_keys=(TRIGGERS_PK, SERVED_TABLES_PK)),
            TableGrant(TableName.LOG, (GET, QUERY, PUT, UPDATE)),
            *_FOLLOW_TOPICS,
            TableGrant(TableName.CATALOG, (DELETE,), partition_keys=(DROPPED_TABLES_PK,)),
            TableGrant(TableName.ROWS, (QUERY,)),  # of tables that were dropped
        ),
        (_READ_OBJECTS, _UPLOAD_WAL),
        may_list=True,
        # The last three are required of the role by Lambda's pollers.
        wakes=(SEND, "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"),
    ),
    TABLES: Permissions(
        (
            TableGrant(TableName.CATALOG, (GET,), OPEN_KEYS),
            TableGrant(TableName.CATALOG, (QUERY,), partition_keys=(ACLS_PK, SERVED_TABLES_PK)),
            TableGrant(TableName.CATALOG, (DELETE,), partition_keys=(SERVED_TABLES_PK,)),
            TableGrant(TableName.ROWS, (QUERY,)),
            *_FOLLOW_TOPICS,
            _READ_LOG,
        ),
        (_READ_OBJECTS,),
        may_list=True,
        wakes=(SEND,),
    ),
    REGISTRY: Permissions(
        (
            TableGrant(
                TableName.CATALOG,
                (GET, PUT),
                _REGISTRY_KEYS,
            ),
            TableGrant(TableName.CATALOG, (UPDATE,), partition_keys=(REGISTRY_SCHEMAS_PK,)),
            TableGrant(TableName.CATALOG, (QUERY,), partition_keys=(ACLS_PK, REGISTRY_SUBJECTS_PK)),
        )
    ),
    **{job: _job(job) for job in JOBS},
}

PERMISSIONS: Mapping[str, Permissions] = {
    **_ROWS,
    GATEWAY: union(_ROWS[name] for name in (*(function.value for function in FunctionName), REGISTRY)),
}

# What a maintainer has beside its row where it keeps Iceberg tables in Glue's catalog (`-c tables=true`): tables in the
# databases of odradek.table.iceberg.namespace, and their metadata; their data files are segments.
ICEBERG_TABLES = Permissions(
    (),
    (ObjectGrant((ICEBERG_PREFIX,), ("s3:GetObject", "s3:PutObject", "s3:DeleteObject")),),
    databases=(DatabaseGrant(("odradek", "odradek_*"), (*_WRITE_TABLES, "glue:DeleteTable")),),
)
