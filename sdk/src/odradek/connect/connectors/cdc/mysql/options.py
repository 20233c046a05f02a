"""Configurations of the connectors for MySQL and MariaDB; names, values and defaults are Debezium's."""

from __future__ import annotations

from odradek.connect.config import ConfigDef, Kind, between, non_empty
from odradek.connect.connectors.cdc.options import COMMON

_LEFT_OUT = ("signal.data.collection", "incremental.snapshot.chunk.size", "heartbeat.action.query",
             "incremental.snapshot.watermarking.strategy", "provide.transaction.metadata")  # fmt: skip

DEFINITIONS = (
    ConfigDef()
    .define("database.hostname", Kind.STRING, documentation="The server.", importance="HIGH", allowed=non_empty())
    .define("database.port", Kind.INT, 3306, "Its port.", importance="HIGH", allowed=between(1, 65_535))
    .define("database.user", Kind.STRING, documentation="The user, with SELECT, RELOAD, REPLICATION SLAVE and "
            "REPLICATION CLIENT.", importance="HIGH", allowed=non_empty())
    .define("database.password", Kind.PASSWORD, None, "The password.", importance="HIGH")
    .define("database.server.id", Kind.LONG, 5_400, "A number that no other replica of the server has.",
            importance="HIGH", allowed=between(1))
    .define("database.include.list", Kind.LIST, [], "Regular expressions of the databases; by default all.")
    .define("database.exclude.list", Kind.LIST, [], "Regular expressions of databases to leave out.")
    .define("database.ssl.ca", Kind.STRING, None, "File with the certificates of authorities; TLS is used with it.")
    + ConfigDef(each for each in COMMON if each.name not in _LEFT_OUT)
)  # fmt: skip
