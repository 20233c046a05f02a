"""Plugins by name: those of the wheel, and those that other packages offer as entry points.

A configuration may name a plugin as Apache Kafka, Confluent or Debezium name it (`org.apache.kafka.connect.json.
JsonConverter`), by the last part of such a name (`JsonConverter`, `Cast$Value`), or by a Python path (`package.module:
Class`). Entry points of the groups `odradek.connect.connectors`, `.converters`, `.transforms` and `.predicates` add
more, under the entry point's name. A module is imported when one of its plugins is used, so that a plugin whose extra
is not installed disturbs no other one.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points, version
from typing import Any, Literal, cast

from odradek.connect.converters.base import Converter
from odradek.connect.errors import ConfigError
from odradek.connect.plugin import Connector, Plugin, Predicate, SinkConnector, SourceConnector, Transformation
from odradek.extras import MissingExtra, extra_of

_KAFKA = "org.apache.kafka.connect."
_CONFLUENT = "io.confluent.connect."
Category = Literal["connectors", "converters", "transforms", "predicates"]
_BASES: dict[Category, type[Plugin]] = {
    "connectors": Connector,
    "converters": Converter,
    "transforms": Transformation,
    "predicates": Predicate,
}
_HERE = "odradek.connect."


@dataclass(frozen=True, slots=True)
class Listed:
    """A plugin of the wheel.

    Attributes:
        name: the class name that listings show: the one of Apache Kafka, Confluent or Debezium, if there is one.
        home: module and class, below odradek.connect.
        also: other names of it.
    """

    name: str
    home: str
    also: tuple[str, ...] = ()


def _parts(package: str, module: str, *names: str) -> tuple[Listed, ...]:
    """Transforms with a class for keys and one for values."""
    return tuple(
        Listed(f"{package}{name}${part}", f"transforms.{module}:{name}{part}") for name in names
        for part in ("Key", "Value")
    )  # fmt: skip


_T = _KAFKA + "transforms."
_CT = _CONFLUENT + "transforms."
PLUGINS: dict[Category, tuple[Listed, ...]] = {
    "connectors": (
        Listed(_CONFLUENT + "datagen.DatagenConnector", "connectors.datagen.source:DatagenConnector",
               ("io.confluent.kafka.connect.datagen.DatagenConnector", "DatagenSource", "Datagen")),
        Listed(_KAFKA + "file.FileStreamSourceConnector", "connectors.files.source:FileSourceConnector",
               ("FileStreamSource", "FileSource")),
        Listed(_KAFKA + "file.FileStreamSinkConnector", "connectors.files.stream_sink:FileStreamSinkConnector",
               ("FileStreamSink",)),
        Listed("odradek.connect.FileSinkConnector", "connectors.files.sink:FileSinkConnector", ("FileSink",)),
        Listed(_CONFLUENT + "s3.S3SinkConnector", "connectors.files.s3:S3SinkConnector", ("S3Sink",)),
        Listed(_CONFLUENT + "s3.source.S3SourceConnector", "connectors.files.s3:S3SourceConnector", ("S3Source",)),
        Listed(_CONFLUENT + "jdbc.JdbcSourceConnector", "connectors.jdbc.source:JdbcSourceConnector", ("JdbcSource",)),
        Listed(_CONFLUENT + "jdbc.JdbcSinkConnector", "connectors.jdbc.sink:JdbcSinkConnector", ("JdbcSink",)),
        Listed("io.debezium.connector.mysql.MySqlConnector", "connectors.cdc.mysql.source:MySqlSourceConnector",
               ("MySqlSource",)),
        Listed("io.debezium.connector.mariadb.MariaDbConnector", "connectors.cdc.mysql.source:MariaDbSourceConnector",
               ("MariaDbSource",)),
        Listed(_KAFKA + "mirror.MirrorSourceConnector", "connectors.mirror.source:MirrorSourceConnector",
               ("MirrorSource",)),
        Listed("odradek.connect.MirrorSinkConnector", "connectors.mirror.sink:MirrorSinkConnector",
               ("MirrorSink", "KafkaSink")),
        Listed(_KAFKA + "mirror.MirrorHeartbeatConnector", "connectors.mirror.checkpoints:MirrorHeartbeatConnector",
               ("MirrorHeartbeat",)),
        Listed(_KAFKA + "mirror.MirrorCheckpointConnector", "connectors.mirror.checkpoints:MirrorCheckpointConnector",
               ("MirrorCheckpoint",)),
        Listed("io.debezium.connector.postgresql.PostgresConnector",
               "connectors.cdc.postgres.source:PostgresSourceConnector", ("PostgresSource",)),
        Listed(_CONFLUENT + "http.HttpSourceConnector", "connectors.http.source:HttpSourceConnector", ("HttpSource",)),
        Listed(_CONFLUENT + "http.HttpSinkConnector", "connectors.http.sink:HttpSinkConnector", ("HttpSink",)),
        Listed(_CONFLUENT + "aws.dynamodb.DynamoDbSinkConnector", "connectors.aws.dynamodb:DynamoDbSinkConnector",
               ("DynamoDbSink",)),
        Listed("odradek.connect.DynamoDbStreamsSourceConnector",
               "connectors.aws.dynamodb_streams:DynamoDbStreamsSourceConnector", ("DynamoDbStreamsSource",)),
        Listed(_CONFLUENT + "sqs.source.SqsSourceConnector", "connectors.aws.sqs:SqsSourceConnector", ("SqsSource",)),
        Listed("odradek.connect.SqsSinkConnector", "connectors.aws.sqs:SqsSinkConnector", ("SqsSink",)),
        Listed("odradek.connect.SnsSinkConnector", "connectors.aws.publish:SnsSinkConnector", ("SnsSink",)),
        Listed("odradek.connect.EventBridgeSinkConnector", "connectors.aws.publish:EventBridgeSinkConnector",
               ("EventBridgeSink", "software.amazon.event.kafkaconnector.EventBridgeSinkConnector")),
        Listed(_CONFLUENT + "aws.lambda.AwsLambdaSinkConnector", "connectors.aws.invoke:LambdaSinkConnector",
               ("LambdaSink",)),
        Listed("odradek.connect.KinesisSinkConnector", "connectors.aws.kinesis:KinesisSinkConnector",
               ("KinesisSink",)),
        Listed(_CONFLUENT + "kinesis.KinesisSourceConnector", "connectors.aws.kinesis:KinesisSourceConnector",
               ("KinesisSource",)),
        Listed("com.redis.kafka.connect.RedisSinkConnector", "connectors.redis:RedisSinkConnector", ("RedisSink",)),
        Listed("org.apache.iceberg.connect.IcebergSinkConnector", "connectors.iceberg.sink:IcebergSinkConnector",
               ("IcebergSink", "io.tabular.iceberg.connect.IcebergSinkConnector")),
        Listed("odradek.connect.OpenSearchSinkConnector", "connectors.opensearch:OpenSearchSinkConnector",
               ("OpenSearchSink", "io.aiven.kafka.connect.opensearch.OpensearchSinkConnector",
                _CONFLUENT + "elasticsearch.ElasticsearchSinkConnector", "ElasticsearchSinkConnector",
                "ElasticsearchSink")),
        Listed(_CONFLUENT + "mqtt.MqttSourceConnector", "connectors.mqtt:MqttSourceConnector", ("MqttSource",)),
    ),
    "converters": (
        Listed(_KAFKA + "json.JsonConverter", "converters.json:JsonConverter"),
        Listed(_KAFKA + "storage.StringConverter", "converters.primitive:StringConverter"),
        Listed(_KAFKA + "storage.SimpleHeaderConverter", "converters.primitive:SimpleHeaderConverter"),
        *(
            Listed(f"{_KAFKA}converters.{name}Converter", f"converters.primitive:{name}Converter")
            for name in ("ByteArray", "Short", "Integer", "Long", "Float", "Double", "Boolean")
        ),
        Listed(_CONFLUENT + "avro.AvroConverter", "converters.avro:AvroConverter"),
        Listed(_CONFLUENT + "json.JsonSchemaConverter", "converters.json_schema:JsonSchemaConverter"),
        Listed(_CONFLUENT + "protobuf.ProtobufConverter", "converters.protobuf:ProtobufConverter"),
    ),
    "transforms": (
        *_parts(_T, "cast", "Cast"),
        *_parts(_T, "fields", "ExtractField", "HoistField", "InsertField", "MaskField", "ReplaceField", "Flatten"),
        *_parts(_T, "timestamps", "TimestampConverter"),
        *_parts(_T, "records", "SetSchemaMetadata", "HeaderFrom"),
        *(
            Listed(_T + name, f"transforms.records:{name}")
            for name in ("DropHeaders", "Filter", "InsertHeader", "RegexRouter", "TimestampRouter", "ValueToKey")
        ),
        *_parts(_CT, "records", "ExtractTopic", "Drop"),
        Listed(_CT + "ExtractTopic$Header", "transforms.records:ExtractTopicHeader"),
        Listed(_CT + "TombstoneHandler", "transforms.records:TombstoneHandler"),
        Listed("io.debezium.transforms.ExtractNewRecordState", "transforms.unwrap:ExtractNewRecordState"),
    ),
    "predicates": tuple(
        Listed(f"{_T}predicates.{name}", f"transforms.predicates:{name}")
        for name in ("HasHeaderKey", "RecordIsTombstone", "TopicNameMatches")
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Found:
    """A plugin that can be named: its name, and the path to its class."""

    name: str
    path: str  # package.module:Class
    category: Category

    def load(self) -> type[Plugin]:
        """Import the class. Raises ConfigError, or MissingExtra that says what to install."""
        module, _, name = self.path.partition(":")
        try:
            loaded = getattr(import_module(module), name)
        except AttributeError:
            raise ConfigError(f"{module} has no class {name}") from None
        except MissingExtra:
            raise
        except ModuleNotFoundError as error:
            missing = extra_of(error.name)
            if missing is not None:
                raise MissingExtra(missing) from error
            raise ConfigError(f"{self.name} cannot be loaded: there is no module {error.name}") from error
        base = _BASES[self.category]
        if not (isinstance(loaded, type) and issubclass(loaded, base)):
            raise ConfigError(f"{self.path} is not a {base.__name__}")
        return loaded


@cache
def _named(category: Category) -> dict[str, Found]:
    """Every name of every plugin of a category; the first name of each one is its own."""
    named: dict[str, Found] = {}
    for plugin in PLUGINS[category]:
        located = Found(plugin.name, _HERE + plugin.home, category)
        last = plugin.name.rpartition(".")[2]
        for name in (plugin.name, *plugin.also, last, (_HERE + plugin.home).replace(":", ".")):
            named.setdefault(name, located)
    for point in entry_points(group=f"odradek.connect.{category}"):
        named.setdefault(point.name, Found(point.name, point.value, category))
        named.setdefault(point.value.replace(":", "."), named[point.name])
    return named


def names(category: Category) -> list[str]:
    """Return the names under which listings show the plugins."""
    return list(dict.fromkeys(located.name for located in _named(category).values()))


def find(category: Category, name: str) -> Found:
    """Return a plugin by one of its names. Raises ConfigError that suggests one."""
    named = _named(category)
    if name in named:
        return named[name]
    if ":" in name:
        return Found(name, name, category)
    close = difflib.get_close_matches(name, list(named), n=1)
    hint = f"did you mean {close[0]}?" if close else "`odradek connect plugins` lists them"
    raise ConfigError(f"unknown {category.removesuffix('s')} class {name!r}: {hint}")


def connector(name: str) -> type[Connector]:
    """Return the class of a connector. Raises ConfigError; MissingExtra if its extra is not installed."""
    return cast(type[Connector], find("connectors", name).load())


def converter(name: str) -> type[Converter]:
    """Return the class of a converter. Raises as `connector`."""
    return cast(type[Converter], find("converters", name).load())


def connector_type(plugin_class: type[Plugin]) -> str:
    """Return `source`, `sink`, or the category's name in Connect's listings."""
    if issubclass(plugin_class, SourceConnector):
        return "source"
    if issubclass(plugin_class, SinkConnector):
        return "sink"
    return {Converter: "converter", Transformation: "transformation"}.get(
        next((base for base in (Converter, Transformation) if issubclass(plugin_class, base)), Plugin), "predicate"
    )


def listing(*, connectors_only: bool) -> Iterator[dict[str, Any]]:
    """Yield Connect's JSON of each plugin that can be loaded; one whose extra is missing is left out."""
    for category in _BASES:
        if connectors_only and category != "connectors":
            continue
        for name in names(category):
            try:
                plugin_class = find(category, name).load()
            except (ImportError, ConfigError):
                continue
            yield {
                "class": name,
                "type": connector_type(plugin_class),
                "version": plugin_class.version or version("odradek"),
            }
