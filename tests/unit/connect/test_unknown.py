"""Options that nothing reads: refused with what to do instead, unless they change nothing."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.connect import plugins
from odradek.connect.config import REQUIRED
from odradek.connect.errors import BadRequest
from odradek.connect.unknown import names_of, refused
from odradek.connect.validate import check, connector_class, definitions, validate

from tests.support.connect.plugins import KEEPER
from tests.support.counted import at_least

JDBC = {
    "name": "x",
    "connector.class": "JdbcSource",
    "connection.url": "sqlite://",
    "mode": "bulk",
    "topic.prefix": "t",
}
S3 = {"name": "x", "connector.class": "S3Sink", "topics": "t", "s3.bucket.name": "b"}
POSTGRES = {
    "name": "x", "connector.class": "PostgresSource", "database.hostname": "h", "database.user": "u",
    "database.dbname": "d", "topic.prefix": "t",
}  # fmt: skip
MYSQL = {**POSTGRES, "connector.class": "MySqlSource"} | {"database.server.id": "1"}
del MYSQL["database.dbname"]
FILE = {"name": "x", "connector.class": "FileStreamSink", "topics": "t", "file": "f"}


def problems(configs: dict[str, str]) -> list[str]:
    found = validate(connector_class(configs), configs)
    return [message for each in found.values() for message in each.errors]


@pytest.mark.parametrize("base", [JDBC, S3, POSTGRES, MYSQL, FILE], ids=lambda base: base["connector.class"])
def test_options_that_change_nothing_here_are_accepted(base: dict[str, str]) -> None:
    assert problems(base) == []
    more = {
        "JdbcSource": {"connection.attempts": "3", "quote.sql.identifiers": "ALWAYS", "table.poll.interval.ms": "1",
                       "numeric.mapping": "best_fit", "db.timezone": "UTC", "query.suffix": "", "dialect.name": "X"},
        "S3Sink": {"storage.class": "io.confluent.connect.s3.storage.S3Storage", "s3.part.size": "5242880",
                   "schema.compatibility": "NONE", "confluent.topic.bootstrap.servers": "b:9092", "locale": "en",
                   "timezone": "Europe/Berlin", "partition.duration.ms": "3600000"},
        "PostgresSource": {"max.queue.size": "8192", "snapshot.delay.ms": "0", "signal.enabled.channels": "source"},
        "MySqlSource": {"schema.history.kafka.topic": "h", "include.schema.changes": "false"},
        "FileStreamSink": {"tasks.max.enforce": "true", "config.action.reload": "restart"},
    }[base["connector.class"]]  # fmt: skip
    assert problems({**base, **more}) == []


def test_the_names_that_debezium_1_gave_its_options_mean_what_those_of_today_do() -> None:
    today = {"database.include.list": "d", "table.include.list": "d.t", "column.exclude.list": "d.t.c"}
    old = {"database.whitelist": "d", "table.whitelist": "d.t", "column.blacklist": "d.t.c"}
    base = {name: value for name, value in MYSQL.items() if name != "topic.prefix"}
    found = [
        {name: each.value for name, each in validate(connector_class(MYSQL), {**base, **given}).items()}
        for given in ({**today, "topic.prefix": "x"},
                      {**old, "database.server.name": "x", "database.allowPublicKeyRetrieval": "true"})
    ]  # fmt: skip
    assert found[0] == found[1]
    assert found[1]["topic.prefix"] == "x"
    assert problems({**base, **old, "database.server.name": "x", "database.allowPublicKeyRetrieval": "true"}) == []
    assert problems({**base, "topic.prefix": "x", "database.allowPublicKeyRetrieval": "false"}) != []


@pytest.mark.parametrize(
    ("base", "option", "value", "says"),
    [
        (JDBC, "db.timezone", "Europe/Berlin", "taken as UTC"),
        (JDBC, "quote.sql.identifiers", "never", "quoted where the database needs it"),
        (JDBC, "tabel.whitelist", "orders", "did you mean table.whitelist?"),
        (JDBC, "table.types", "VIEW", "name views in a query"),
        (JDBC, "timestamp.granularity", "nanos_long", "only connect_logical is supported"),
        (JDBC, "numeric.mapping", "double", "must be one of none"),
        (JDBC, "whatever", "1", "whatever is not supported: remove it"),
        (S3, "s3.compression.type", "gzip", "files are not compressed"),
        (S3, "s3.sse.kms.key.id", "k", "default encryption"),
        (S3, "store.kafka.keys", "true", "keys and headers are not written"),
        (S3, "behavior.on.null.values", "write", "must be one of ignore, fail"),
        (S3, "timezone", "Mars/Olympus", "must be a time zone"),
        (POSTGRES, "column.mask.with.five.chars", "a.b.c", "column.mask.with."),
        (POSTGRES, "column.mask.hash.SHA-257.with.salt.x", "a.b.c", "such as SHA-256, not SHA-257"),
        (POSTGRES, "toasted.value.placeholder", "old", "its name is unavailable.value.placeholder"),
        (POSTGRES, "snapshot.select.statement.overrides", "a.b", "additional-conditions"),
        (POSTGRES, "skip.messages.without.change", "true", "only false is supported"),
        (MYSQL, "include.schema.changes", "true", "set it to false"),
        (MYSQL, "gtid.source.includes", "u", "all GTIDs"),
        (FILE, "topics.dirs", "x", "is not supported"),
        (FILE, "offsets.storage.topic", "mine", "the worker's offset.storage.topic"),
        (FILE, "value.converter.schemas.enable", "false", "counts only with value.converter"),
        (FILE, "transforms.t.type", "Filter", "counts only if transforms names t"),
        (FILE, "predicates.p.type", "RecordIsTombstone", "counts only if predicates names p"),
    ],
)  # fmt: skip
def test_an_option_that_nothing_reads_is_refused(base: dict[str, str], option: str, value: str, says: str) -> None:
    found = problems({**base, option: value})
    assert len(found) == 1, found
    assert says in found[0]
    assert option.split(".")[0] in found[0]
    with pytest.raises(BadRequest, match=r"not supported|must be|counts only"):
        check({**base, option: value})


def test_options_of_transforms_predicates_and_converters_are_judged_as_well() -> None:
    parts = {
        "transforms": "a", "transforms.a.type": "MaskField$Value", "transforms.a.fields": "f",
        "transforms.a.predicate": "p", "transforms.a.negate": "true", "predicates": "p",
        "predicates.p.type": "TopicNameMatches", "predicates.p.pattern": "x",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false",
        "key.converter": "io.confluent.connect.avro.AvroConverter",
        "key.converter.schema.registry.url": "http://127.0.0.1:1",
        "key.converter.basic.auth.credentials.source": "USER_INFO",
    }  # fmt: skip
    assert problems({**FILE, **parts}) == []
    for option, says in {
        "transforms.a.field": "transforms.a.field is not supported: did you mean fields?",
        "predicates.p.negate": "predicates.p.negate is not supported",
        "value.converter.schema.enable": "did you mean schemas.enable?",
        "key.converter.scrub.invalid.names": "key.converter.scrub.invalid.names is not supported",
    }.items():
        [found] = problems({**FILE, **parts, option: "x"})
        assert says in found


def test_a_connector_of_ones_own_may_read_what_it_does_not_define() -> None:
    assert problems({"name": "x", "connector.class": KEEPER, "topics": "t", "refuse": "a"}) == []


def test_every_option_of_a_page_is_accepted_in_its_default() -> None:
    """No definition is shadowed by the rules about unknown options."""
    for name in at_least(20, plugins.names("connectors")):
        kind: Any = plugins.find("connectors", name).load()
        known = definitions(kind)
        given = {key.name: key.default for key in known if key.default is not REQUIRED and key.default is not None}
        assert list(refused(kind, names_of(known), given)) == [], name
