"""Options that a plugin does not define: refused, unless they change nothing.

A connector's configuration often comes from Kafka Connect, where the connector of the same name has further options,
and where a misspelt one is ignored. Here each option of a connector of Odradek is one of these:

    defined      by the worker, the connector, a converter, a transform or a predicate
    known        the original has it, and what it asks for is what happens anyhow (`_SAME`), or it changes nothing here,
                 such as the size of an internal queue (`_IDLE`)
    refused      everything else, with what to do instead (`_ADVICE`) or the name that may be meant

A connector that is not Odradek's own may read options that it does not define: those are left aside, as in Kafka
Connect. (Decision 0047.)
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from odradek.connect import plugins
from odradek.connect.config import ConfigDef, with_prefix
from odradek.connect.errors import ConfigError
from odradek.connect.plugin import Connector, Plugin
from odradek.connect.transforms.chain import aliases

_MIRRORS = "org.apache.kafka.connect.mirror."
_UNSET = ("", "none", "null")

# What changes nothing here: patterns of names, by the beginning of the plugin's name; "" is every connector.
_IDLE: Mapping[str, tuple[str, ...]] = {
    "": ("config.action.reload", "*.plugin.version", "connector.plugin.version", "consumer.max.poll.interval.ms"),
    "io.confluent.": ("confluent.license", "confluent.topic", "confluent.topic.*", "max.retries", "retry.backoff.ms"),
    "io.confluent.connect.jdbc.": (
        "connection.attempts", "connection.backoff.ms", "table.poll.interval.ms", "query.retry.attempts",
        "query.masked", "dialect.name",
    ),
    "io.confluent.connect.s3.": (
        "storage.class", "s3.part.*", "s3.retry.*", "s3.http.*", "s3.wan.mode", "s3.path.style.access.enabled",
        "s3.elastic.*", "schemas.cache.*", "s3.poll.interval.ms", "mode",
    ),
    "odradek.connect.OpenSearch": (
        "linger.ms", "flush.timeout.ms", "max.in.flight.requests", "max.buffered.*", "max.retries", "retry.backoff.ms",
        "connection.timeout.ms", "max.connection.idle.time.ms", "connection.compression", "confluent.*", "type.name",
    ),
    "io.debezium.": (
        "schema.history.*", "database.history", "database.history.*", "internal.*",
        "max.queue.size", "max.queue.size.in.bytes", "topic.cache.size", "query.fetch.size", "custom.metric.tags",
        "snapshot.max.threads", "snapshot.lock.timeout.ms", "signal.poll.interval.ms", "signal.kafka.bootstrap.servers",
        "signal.kafka.poll.timeout.ms", "signal.kafka.groupId", "signal.consumer.*", "executor.shutdown.timeout.ms",
        "database.query.timeout.ms", "connection.validation.timeout.ms", "slot.max.retries", "slot.retry.delay.ms",
        "schema.refresh.mode", "xmin.fetch.interval.ms", "include.schema.comments", "database.jdbc.*",
        "connect.keep.alive*", "min.row.count.to.stream.results", "binlog.buffer.size",
        "database.connectionTimeZone", "snapshot.tables.order.by.row.count", "enable.time.adjuster",
    ),
    "org.apache.kafka.connect.mirror.": (
        "replication.factor", "*.topic.replication.factor", "sync.topic.*.interval.seconds", "refresh.groups.*",
        "offset.lag.max", "offset-syncs.topic.location", "use.incremental.alter.configs", "admin.timeout.ms",
        "target.cluster.*", "add.source.alias.to.metrics", "forwarding.admin.class", "name.format",
    ),
    "org.apache.iceberg.": (
        "iceberg.control.topic", "iceberg.control.group-id-prefix", "iceberg.control.commit.t*", "iceberg.kafka.*",
        "iceberg.connect.group-id", "iceberg.control.commit.timeout-ms",
    ),
    "com.redis.": ("redis.cluster.enabled", "redis.pool*", "redis.multiexec", "redis.wait.*"),
    "io.confluent.connect.aws.lambda.": ("aws.lambda.socket.timeout", "aws.lambda.request.timeout.ms"),
}  # fmt: skip

# What happens here anyhow: name -> the values that ask for it. "" is no value, and so are none and null.
_SAME: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "": {"tasks.max.enforce": ("true",), "offsets.storage.topic": ("",), "errors.deadletterqueue.producer": ("",)},
    "io.confluent.connect.jdbc.": {
        "quote.sql.identifiers": ("always",), "db.timezone": ("utc",), "table.types": ("table",),
        "catalog.pattern": ("",), "query.suffix": ("",), "timestamp.granularity": ("connect_logical",),
        "transaction.isolation.mode": ("default",), "incrementing.initial": ("-1",), "numeric.precision.mapping":
        ("false",), "mssql.use.merge.holdlock": ("true", "false"), "max.retries": ("*",),
        "trim.sensitive.log": ("true", "false"), "replace.null.with.default": ("true",),
    },
    "io.confluent.connect.s3.": {
        "schema.compatibility": ("none",), "s3.compression.type": ("none",), "directory.delim": ("/",),
        "avro.codec": ("deflate",), "parquet.codec": ("snappy",), "store.kafka.keys": ("false",),
        "store.kafka.headers": ("false",), "s3.object.tagging": ("false",), "s3.acl.canned": ("",),
        "s3.ssea.name": ("",), "filename.offset.zero.pad.width": ("10",), "locale": ("en", "en_us", "en-us"),
        "enhanced.avro.schema.support": ("false",), "allow.optional.map.keys": ("false",), "connect.meta.data":
        ("true", "false"), "s3.credentials.provider.class":
        ("com.amazonaws.auth.defaultawscredentialsproviderchain",),
    },
    "io.confluent.connect.http.": {
        "header.separator": ("|",), "batch.json.as.array": ("true",), "behavior.on.error": ("fail",),
        "report.errors.as": ("error_string",), "oauth2.token.property": ("access_token",),
        "oauth2.client.mode": ("header",), "regex.patterns": ("",),
    },
    "io.debezium.": {
        "plugin.name": ("pgoutput",), "snapshot.delay.ms": ("0",),
        "snapshot.isolation.mode": ("repeatable_read",), "snapshot.query.mode": ("select_all",),
        "snapshot.locking.mode": ("none",),
        "event.processing.failure.handling.mode": ("fail",),
        "event.deserialization.failure.handling.mode": ("fail",), "inconsistent.schema.handling.mode": ("fail",),
        "field.name.adjustment.mode": ("none",), "schema.name.adjustment.mode": ("none",),
        "topic.naming.strategy": ("io.debezium.schema.schematopicnamingstrategy",
                                  "io.debezium.schema.defaulttopicnamingstrategy"),
        "topic.transaction": ("transaction",),
        "notification.enabled.channels": ("",), "slot.stream.params": ("",), "slot.failover": ("false",),
        "publish.via.partition.root": ("false",), "flush.lsn.source": ("true",),
        "skip.messages.without.change": ("false",), "read.only": ("false",), "include.query": ("false",),
        "include.schema.changes": ("false",), "database.allowPublicKeyRetrieval": ("true",),
        "table.ignore.builtin": ("true",), "sanitize.field.names": ("false",),
        "extended.headers.enabled": ("true", "false"), "incremental.snapshot.allow.schema.changes": ("true", "false"),
        "gtid.source.filter.dml.events": ("true",), "database.initial.statements": ("",), "converters": ("",),
        "replica.identity.autoset.values": ("",),
    },
    "org.apache.kafka.connect.mirror.": {
        "refresh.topics.enabled": ("true",), "emit.heartbeats.enabled": ("true",), "emit.checkpoints.enabled":
        ("true",), "emit.offset-syncs.enabled": ("true",), "enabled": ("true",),
        "topic.filter.class": ("org.apache.kafka.connect.mirror.defaulttopicfilter",),
        "group.filter.class": ("org.apache.kafka.connect.mirror.defaultgroupfilter",),
        "config.property.filter.class": ("org.apache.kafka.connect.mirror.defaultconfigpropertyfilter",),
    },
    "org.apache.iceberg.": {
        "iceberg.tables.dynamic-enabled": ("false",), "iceberg.tables.route-field": ("",),
        "iceberg.tables.default-commit-branch": ("", "main"), "iceberg.tables.schema-case-insensitive": ("false",),
        "iceberg.tables.schema-force-optional": ("false",),
    },
    "io.confluent.connect.aws.dynamodb.": {
        "aws.dynamodb.pk.hash": ("",), "aws.dynamodb.pk.sort": ("",),
    },
    "odradek.connect.OpenSearch": {
        "drop.invalid.message": ("false",), "compact.map.entries": ("true",), "behavior.on.version.conflict":
        ("ignore",), "index.write.method": ("insert", "upsert"), "external.version.header": ("",),
    },
}  # fmt: skip

# What to do instead, for names that people bring along.
_ADVICE: Mapping[str, str] = {
    "toasted.value.placeholder": "its name is unavailable.value.placeholder",
    "heartbeat.topics.prefix": "its name is topic.heartbeat.prefix",
    "include.schema.changes": "changes of schemas are not written to a topic of their own: set it to false",
    "snapshot.select.statement.overrides*": "ask for rows by signals, with additional-conditions",
    "gtid.source.*": "all GTIDs of the server are read: remove it",
    "database.ssl.keystore*": "clients' certificates are not supported",
    "database.ssl.truststore*": "its counterpart is database.ssl.ca, a file in PEM",
    "driver.*": "the driver is libpq or PyMySQL, and has no such properties",
    "db.timezone": "times without a zone are taken as UTC: convert them in a query or a view",
    "quote.sql.identifiers": "identifiers are quoted where the database needs it",
    "table.types": "name views in a query",
    "catalog.pattern": "name the database in connection.url",
    "query.suffix": "put it into query",
    "numeric.precision.mapping": "its name is numeric.mapping, with the value precision_only",
    "schema.compatibility": "each file has the schema of its records: a new one begins a new file",
    "s3.compression.type": "files are not compressed, but for Parquet (Snappy) and Avro (deflate)",
    "s3.ssea.name": "set the bucket's default encryption",
    "s3.sse.*": "set the bucket's default encryption",
    "s3.acl.canned": "set the bucket's policy",
    "s3.credentials.provider.class": "credentials are boto3's, or aws.access.key.id and aws.secret.access.key",
    "store.url": "its counterpart is aws.endpoint.url",
    "store.kafka.*": "keys and headers are not written: put them into the value with a transform",
    "schema.filename": "its counterpart is quickstart: own schemas are not supported",
    "schema.string": "its counterpart is quickstart: own schemas are not supported",
    "reporter.*": "responses are not written to a topic; failures go to errors.deadletterqueue.topic.name",
    "offsets.storage.topic": "source offsets are in the worker's offset.storage.topic",
    "iceberg.table.*": "configure tables of their own by connectors of their own",
    "iceberg.tables.dynamic-enabled": "name tables by ${topic} in iceberg.tables",
    "transforms": "a transform must be named in transforms",
}

# What a connector reads besides its definitions: prefixes of names.
_OPEN: Mapping[str, tuple[str, ...]] = {
    "io.debezium.": ("column.mask.with.", "column.mask.hash.", "column.truncate.to."),
    "org.apache.iceberg.": ("iceberg.catalog.", "iceberg.tables.auto-create-props."),
    "org.apache.kafka.connect.mirror.": ("source.cluster.", "source.consumer.", "source.admin.", "consumer."),
    "odradek.connect.Mirror": ("target.cluster.", "target.producer.", "producer."),
}
_OF_PARTS = ("key.converter.", "value.converter.", "header.converter.", "transforms.", "predicates.",
             "producer.override.", "consumer.override.", "admin.override.", "topic.creation.")  # fmt: skip
_OF_CONVERTERS = {
    "schemas.cache.size": ("*",), "schemas.cache.config": ("*",), "basic.auth.credentials.source":
    ("user_info", "url"), "enhanced.avro.schema.support": ("false",), "connect.meta.data": ("true",),
    "normalize.schemas": ("false",), "latest.compatibility.strict": ("true",), "converter.type": ("*",),
    "replace.null.with.default": ("true",),
}  # fmt: skip


def refused(
    connector_type: type[Connector], defined: Iterable[str], configs: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Yield each option that nothing reads, with what to do about it.

    Args:
        connector_type: the connector; the options of one that is not of this wheel are its own matter.
        defined: the names that the worker and the connector define, their other names too.
        configs: the configuration as it was given.
    """
    name = _own_name(connector_type)
    names = set(defined)
    if name is not None:
        names |= _of_siblings(name)
        allowed = _for(_OPEN, name)
        for option, value in configs.items():
            if option in names or option.startswith(
                (*_OF_PARTS, *(option_name for one in allowed for option_name in one))
            ):
                continue
            why = _why(name, option, value, names)
            if why is not None:
                yield option, why
    yield from _of_parts(configs)


def _own_name(plugin_class: type[Plugin]) -> str | None:
    path = f"{plugin_class.__module__}:{plugin_class.__name__}"
    return next((plugin.name for plugin in plugins.PLUGINS["connectors"] if path.endswith(f".{plugin.home}")), None)


def _of_siblings(name: str) -> set[str]:
    """Return the options of MirrorMaker 2's other connectors: people give all three the same ones."""
    if not name.startswith(_MIRRORS):
        return set()
    definitions = (plugins.find("connectors", name).load().config_def for name in plugins.names("connectors")
             if name.startswith(_MIRRORS))  # fmt: skip
    return {option for definition in definitions for option in names_of(definition)}


def _for(table: Mapping[str, Any], name: str) -> list[Any]:
    """Return what a table has for a plugin."""
    return [entry for beginning, entry in table.items() if name.startswith(beginning)]


def _why(name: str, option: str, value: Any, names: Iterable[str]) -> str | None:
    """Return why an option that nothing reads is refused, None for one that changes nothing."""
    if any(fnmatchcase(option, pattern) for patterns in _for(_IDLE, name) for pattern in patterns):
        return None
    same = {key: values for table in _for(_SAME, name) for key, values in table.items()}
    return _judged(option, value, same, names)


def _judged(option: str, value: Any, same: Mapping[str, tuple[str, ...]], names: Iterable[str]) -> str | None:
    text = str(value).strip().lower()
    values = same.get(option)
    if values is not None and ("*" in values or text in values or ("" in values and text in _UNSET)):
        return None
    advice = next((text for pattern, text in _ADVICE.items() if fnmatchcase(option, pattern)), None)
    if advice is None and values is not None:
        advice = f"only {' or '.join(filter(None, values)) or 'no value'} is supported"
    if advice is None:
        close = difflib.get_close_matches(option, sorted(names), n=1, cutoff=0.8)
        advice = f"did you mean {close[0]}?" if close else "remove it, if the connector may go without it"
    shown = f"{option}={value}" if values is not None else option
    return f"{shown} is not supported: {advice}"


# --- converters, transforms, predicates -------------------------------------------------------------------------------


def _of_parts(configs: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for part in ("key.converter", "value.converter", "header.converter"):
        options = with_prefix(configs, f"{part}.")
        if part not in configs:
            for option in options:
                yield f"{part}.{option}", f"{part}.{option} counts only with {part}: the worker's converter has its own"
            continue
        yield from _of_part(part, options, _definitions("converters", str(configs[part])), _OF_CONVERTERS)
    for category, extra in (("transforms", ("type", "predicate", "negate")), ("predicates", ("type",))):
        try:
            named = aliases(configs, category)
        except ConfigError:
            continue  # told by make_chain
        for alias in sorted({option.split(".")[0] for option in with_prefix(configs, f"{category}.")}):
            options = with_prefix(configs, f"{category}.{alias}.")
            if alias not in named:
                advice = f"{category}.{alias}.* counts only if {category} names {alias}"
                yield f"{category}.{alias}.{next(iter(options), 'type')}", advice
                continue
            definition = _definitions(category, str(options.get("type", "")))
            yield from _of_part(
                f"{category}.{alias}", {n: v for n, v in options.items() if n not in extra}, definition, {}
            )


def _of_part(
    prefix: str, options: Mapping[str, Any], definition: ConfigDef | None, same: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[str, str]]:
    if definition is None:
        return
    names = names_of(definition)
    for option, value in options.items():
        if option in names or option.endswith("plugin.version"):
            continue
        why = _judged(option, value, same, names)
        if why is not None:
            yield f"{prefix}.{option}", f"{prefix}.{why}"


def _definitions(category: Any, name: str) -> ConfigDef | None:
    """Return the definitions of a plugin of this wheel, None for another one or none."""
    try:
        located = plugins.find(category, name)
        plugin_class = located.load()
    except (ImportError, ConfigError):
        return None  # told elsewhere
    return plugin_class.config_def if plugin_class.__module__.startswith("odradek.connect.") else None


def names_of(definitions: ConfigDef) -> set[str]:
    """Return all names that definitions understand."""
    return {name for key in definitions for name in (key.name, *key.also)}
