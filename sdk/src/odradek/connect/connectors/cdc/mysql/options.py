"""Configurations of the connectors for MySQL and MariaDB; names, values and defaults are Debezium's."""

from __future__ import annotations

from odradek.connect.config import ConfigDef, Kind, between, non_empty, one_of
from odradek.connect.connectors.cdc.options import COMMON

DEFINITIONS = (
    ConfigDef()
    .define("database.hostname", Kind.STRING, documentation="The server.", importance="HIGH", allowed=non_empty())
    .define("database.port", Kind.INT, 3306, "Its port.", importance="HIGH", allowed=between(1, 65_535))
    .define("database.user", Kind.STRING, documentation="The user, with SELECT, REPLICATION SLAVE and REPLICATION "
            "CLIENT; RELOAD for the lock of the snapshot; INSERT and DELETE on the table of signals.",
            importance="HIGH", allowed=non_empty())
    .define("database.password", Kind.PASSWORD, None, "The password.", importance="HIGH")
    .define("database.server.id", Kind.LONG, 5_400, "A number that no other replica of the server has.",
            importance="HIGH", allowed=between(1))
    .define("database.include.list", Kind.LIST, [], "Regular expressions of the databases; by default all.",
            also=("database.whitelist",))
    .define("database.exclude.list", Kind.LIST, [], "Regular expressions of databases to leave out.",
            also=("database.blacklist",))
    .define("database.ssl.mode", Kind.STRING, "preferred", "preferred: TLS if the server has it; required; verify_ca "
            "and verify_identity check the server's certificate.",
            allowed=one_of("disabled", "preferred", "required", "verify_ca", "verify_identity"))
    .define("database.ssl.ca", Kind.STRING, None, "File with the certificates of authorities, in PEM. With it, "
            "preferred and required check the certificate as verify_identity does.")
    .define("snapshot.locking.mode", Kind.STRING, "minimal", "minimal: a global read lock while the snapshot begins, "
            "if the user has the right to it; none: no lock. Without it, changes at the beginning of the snapshot are "
            "in it and come once more from the log.", allowed=one_of("minimal", "none"))
    .define("connect.timeout.ms", Kind.INT, 30_000, "Time to connect, in ms.", allowed=between(1))
    .define("bigint.unsigned.handling.mode", Kind.STRING, "long", "BIGINT UNSIGNED: long is INT64, and a larger value "
            "cannot be converted; precise is Connect's Decimal.", allowed=one_of("long", "precise"))
    + COMMON
)  # fmt: skip
