"""Work of people on a log, as calls with plain results: the service layer of the console and of the command line.

    cluster.py       a connection to one Odradek: admin client, consumers, producers, schema registry
    topics.py        topics, partitions, configurations, consumers of a topic
    groups.py        groups of every kind, with members and lag; resets.py: new offsets for a group
    records/         browse, search, tail, export and produce records; formats of keys and values
    schemas.py       subjects and versions of the schema registry
    security.py      users, ACLs and quotas; transactions.py: transactional ids
    triggers.py      functions that are called with new records
    tables.py        served tables, and their rows by key
    health.py        the checks of `odradek doctor`; metrics.py: the numbers of a running service
    jobs/            installed jobs, and runs of a deployment's jobs on Glue
    costs.py         what a workload costs a month
    query/           SQL over topics by DuckDB, to Arrow
    sql.py           checks of stream SQL scripts
    storage.py       what a log is made of, read from its tables; alarms.py; history.py: lag and cost over time
    cluster_file/    cluster files: read, compared with the service, applied
    skew.py, redrive.py, connectors.py   keys over partitions; dead letters; Connect clusters
    places.py        names of offsets: earliest, latest, -N, @TIME

A result is a frozen dataclass of scalars, tuples and mappings: `plain(result)` is what `--output json` prints and what
a page of the console shows. Calls take the asynchronous admin client, so that the console can run many at a time; a
command runs one by `odradek.cli.connection.run`. Every call is made with the caller's own credentials: ACLs apply.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any


def plain(value: Any) -> Any:
    """Return a result as mappings, lists and scalars; fields keep their names and their order."""
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | set | frozenset) or (isinstance(value, tuple) and not hasattr(value, "_fields")):
        return [plain(each) for each in value]
    return str(value) if hasattr(value, "_fields") else value
