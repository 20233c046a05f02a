"""Configurations of the connector for PostgreSQL; names, values and defaults are Debezium's."""

from __future__ import annotations

from odradek.connect.config import ConfigDef, Kind, between, non_empty, one_of
from odradek.connect.connectors.cdc.options import COMMON

CONNECTION = (
    ConfigDef()
    .define("database.hostname", Kind.STRING, documentation="The server.", importance="HIGH", allowed=non_empty())
    .define("database.port", Kind.INT, 5432, "Its port.", importance="HIGH", allowed=between(1, 65_535))
    .define("database.user", Kind.STRING, documentation="The user, with the attribute REPLICATION and SELECT on the "
            "tables.", importance="HIGH", allowed=non_empty())
    .define("database.password", Kind.PASSWORD, None, "The password.", importance="HIGH")
    .define("database.dbname", Kind.STRING, documentation="The database.", importance="HIGH", allowed=non_empty())
    .define("database.sslmode", Kind.STRING, "prefer", "TLS, as libpq names it.",
            allowed=one_of("disable", "allow", "prefer", "require", "verify-ca", "verify-full"))
    .define("database.sslrootcert", Kind.STRING, None, "File with the certificates of authorities.")
    .define("database.sslcert", Kind.STRING, None, "File with the client's certificate.")
    .define("database.sslkey", Kind.STRING, None, "File with the client's key.")
    .define("database.tcpKeepAlive", Kind.BOOLEAN, True, "Whether the connection is kept alive by TCP.")
)  # fmt: skip

DEFINITIONS = (
    CONNECTION
    + (
        ConfigDef()
        .define("plugin.name", Kind.STRING, "pgoutput", "The output plugin.", allowed=one_of("pgoutput"))
        .define("slot.name", Kind.STRING, "debezium", "Name of the replication slot, of which each connector needs "
                "its own.", importance="HIGH", allowed=non_empty())
        .define("slot.drop.on.stop", Kind.BOOLEAN, False, "Whether the slot is dropped when the task stops: only for "
                "tests, since changes meanwhile are lost.")
        .define("slot.lag.warning.bytes", Kind.LONG, 1 << 30, "WAL that the slot holds back, in bytes, from which "
                "on the log warns.", allowed=between(0))
        .define("publication.name", Kind.STRING, "dbz_publication", "Name of the publication.", allowed=non_empty())
        .define("publication.autocreate.mode", Kind.STRING, "all_tables", "Which publication is created: all_tables "
                "(needs a superuser), filtered (of the captured tables, and the user owns them), no_tables, or "
                "disabled.", allowed=one_of("all_tables", "filtered", "no_tables", "disabled"))
        .define("schema.include.list", Kind.LIST, [], "Regular expressions of the schemas; by default all.",
                also=("schema.whitelist",))
        .define("schema.exclude.list", Kind.LIST, [], "Regular expressions of schemas to leave out.",
                also=("schema.blacklist",))
        .define("message.prefix.include.list", Kind.LIST, [], "Regular expressions of the prefixes of messages "
                "(pg_logical_emit_message) that become records; by default all.")
        .define("message.prefix.exclude.list", Kind.LIST, [], "Regular expressions of prefixes to leave out.")
        .define("unavailable.value.placeholder", Kind.STRING, "__debezium_unavailable_value", "In place of a large "
                "(TOAST) value that an update did not change and the server did not send.", allowed=non_empty())
        .define("interval.handling.mode", Kind.STRING, "numeric", "Intervals: numeric is microseconds, string is "
                "ISO 8601.", allowed=one_of("numeric", "string"))
        .define("hstore.handling.mode", Kind.STRING, "json", "Columns of type hstore: JSON as text, or a "
                "map of texts.", allowed=one_of("json", "map"))
        .define("money.fraction.digits", Kind.INT, 2, "Digits after the point of `money`.", allowed=between(0))
        .define("include.unknown.datatypes", Kind.BOOLEAN, False, "Whether columns of unknown types are captured, as "
                "text.")
        .define("status.update.interval.ms", Kind.LONG, 10_000, "Time between two messages to the server about what "
                "is stored, in ms.", allowed=between(1))
    )
    + COMMON
)  # fmt: skip
