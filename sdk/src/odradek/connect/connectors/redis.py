"""The Redis sink: records as strings, hashes, or entries of streams, lists, sets and sorted sets; also into Valkey.

The commands of a batch are one MULTI/EXEC. With `exactly.once=true` it also moves the offsets, keys of their own, on
condition (WATCH) that they are still those that this task has read: a task that was replaced changes nothing any more.
Otherwise writes are at least once, which SET, HSET, SADD and ZADD make harmless.

Configurations are those of Redis' own connector; `redis.ttl.ms`, `exactly.once` and `offsets.prefix` are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from odradek.connect.config import ConfigDef, Kind, between, non_empty, one_of
from odradek.connect.connectors.text import text_of
from odradek.connect.data.structs import Struct
from odradek.connect.data.values import to_text
from odradek.connect.errors import ConnectError, DataError, RetriableError
from odradek.connect.plugin import Configs, SinkConnector, SinkTask
from odradek.connect.record import SinkRecord
from odradek.extras import extra
from odradek.model.topic_partition import TopicPartition

with extra("connect-redis"):
    import redis
    from redis.exceptions import BusyLoadingError, RedisError, WatchError

_DEFINITIONS = (
    ConfigDef()
    .define(
        "redis.uri", Kind.STRING, "redis://127.0.0.1:6379", "Address: redis://host:port/database, rediss:// for TLS.",
        importance="HIGH", allowed=non_empty(),
    )
    .define("redis.username", Kind.STRING, None, "The user, of Redis 6 and later.")
    .define("redis.password", Kind.PASSWORD, None, "The password.")
    .define("redis.timeout", Kind.LONG, 60, "Time for one command, in seconds.", allowed=between(1))
    .define("redis.insecure", Kind.BOOLEAN, False, "Whether any certificate of the server is accepted.")
    .define(
        "redis.command", Kind.STRING, "HSET",
        "How a record is written. SET: its value; HSET: the fields of its value; XADD: likewise, as an entry of a "
        "stream; RPUSH, LPUSH: its value, to a list; SADD: its key, to a set; ZADD: likewise, by its value.",
        importance="HIGH", allowed=one_of("SET", "HSET", "XADD", "RPUSH", "LPUSH", "SADD", "ZADD", ignore_case=True),
    )
    .define(
        "redis.key", Kind.STRING, "${topic}",
        "Key of the stream, list or set; with SET and HSET what precedes the record's key. ${topic} is the topic.",
        also=("redis.keyspace",),
    )
    .define("redis.separator", Kind.STRING, ":", "Between redis.key and the record's key.")
    .define("redis.ttl.ms", Kind.LONG, -1, "Time after which what SET and HSET wrote expires; -1: never.")
    .define("exactly.once", Kind.BOOLEAN, False, "Whether offsets are kept in Redis, in the same transaction.")
    .define("offsets.prefix", Kind.STRING, "odradek:connect:offsets", "What the keys of those offsets begin with.")
)  # fmt: skip
Pipeline = Any
"""redis.client.Pipeline; its stubs know neither bytes nor text."""


@contextmanager
def _translated(failure: str) -> Iterator[None]:
    try:
        yield
    except (redis.ConnectionError, redis.TimeoutError, BusyLoadingError) as error:
        raise RetriableError(f"{failure}: {error}") from error
    except RedisError as error:
        raise ConnectError(f"{failure}: {error}") from error


def _client(configs: Mapping[str, Any]) -> Any:
    """Return a client. Raises ConnectError for an address that is none."""
    options: dict[str, Any] = {"socket_timeout": configs["redis.timeout"], "protocol": 2}
    for option, name in (("username", "redis.username"), ("password", "redis.password")):
        if configs[name]:
            options[option] = configs[name]
    if configs["redis.insecure"] and configs["redis.uri"].startswith("rediss:"):
        options |= {"ssl_cert_reqs": None, "ssl_check_hostname": False}
    try:
        return redis.Redis.from_url(configs["redis.uri"], **options)
    except ValueError as error:
        raise ConnectError(f"redis.uri {configs['redis.uri']!r}: {error}") from error


def _offset_key(options: Mapping[str, Any], connector: str, tp: TopicPartition) -> str:
    return f"{options['offsets.prefix']}:{connector}:{tp.topic}:{tp.partition}"


class RedisSinkTask(SinkTask):
    """Writes the records of a batch in one transaction."""

    _client: Any = None

    def start(self, configs: Configs) -> None:
        self._options = options = _DEFINITIONS.parse(configs)
        self._name = configs.get("name", "")
        self._client = _client(options)
        self._positions: dict[TopicPartition, int | None] = {}  # with exactly once: the offsets in Redis
        self._write = _COMMANDS[options["redis.command"].upper()]

    # --- offsets in Redis -----------------------------------------------------------------------------------------

    def open(self, partitions: Iterable[TopicPartition]) -> None:
        if self._options["exactly.once"]:
            places = list(partitions)
            self._read_positions(places)
            positions = {tp: self._positions[tp] for tp in places}
            self.context.seek({tp: offset for tp, offset in positions.items() if offset is not None})

    def _read_positions(self, places: Sequence[TopicPartition]) -> None:
        with _translated("the offsets cannot be read"):
            stored = self._client.mget([self._key_of(tp) for tp in places]) if places else []
        for tp, offset in zip(places, stored, strict=True):
            self._positions[tp] = None if offset is None else int(offset)

    def _key_of(self, tp: TopicPartition) -> str:
        return _offset_key(self._options, self._name, tp)

    def close(self, partitions: Iterable[TopicPartition]) -> None:
        for tp in partitions:
            self._positions.pop(tp, None)

    # --- writing --------------------------------------------------------------------------------------------------

    def put(self, records: Sequence[SinkRecord]) -> None:
        if self._options["exactly.once"]:
            # After a failure it is unknown whether the batch was written: its offsets tell.
            unread = {record.source for record in records} - self._positions.keys()
            self._read_positions(sorted(unread))
            records = [record for record in records if record.source_position >= (self._positions[record.source] or 0)]
        if not records:
            return
        behind = {record.source: record.source_position + 1 for record in records}
        written: list[SinkRecord | None] = []  # by command: the record that it is for
        try:
            with _translated("the records cannot be written"), self._client.pipeline(transaction=True) as pipeline:
                if self._options["exactly.once"]:
                    self._watch(pipeline, list(behind))
                    pipeline.multi()
                for record in records:
                    self._add(pipeline, record)
                    written += [record] * (len(pipeline) - len(written))
                if self._options["exactly.once"]:
                    for tp, offset in behind.items():
                        pipeline.set(self._key_of(tp), offset)
                        written.append(None)
                results = self._executed(pipeline)
        except RetriableError:
            self._positions.clear()
            raise
        if self._options["exactly.once"]:
            self._positions.update(behind)
        self._report(written, results)

    def _watch(self, pipeline: Pipeline, places: list[TopicPartition]) -> None:
        """Make the transaction depend on the offsets. Raises RetriableError if they are not those that were read."""
        keys = [self._key_of(tp) for tp in places]
        pipeline.watch(*keys)
        for tp, stored in zip(places, pipeline.mget(keys), strict=True):
            if (None if stored is None else int(stored)) != self._positions[tp]:
                raise RetriableError(f"another task has written records of {tp}")

    def _executed(self, pipeline: Pipeline) -> list[Any]:
        try:
            return list(pipeline.execute(raise_on_error=False))
        except WatchError as error:
            raise RetriableError("another task has written the same records") from error

    def _add(self, pipeline: Pipeline, record: SinkRecord) -> None:
        try:
            self._write(self, pipeline, record)
        except DataError as error:
            self.context.errant_records.report(record, error)

    def _report(self, written: list[SinkRecord | None], results: list[Any]) -> None:
        """Report records whose command Redis refused, such as one on a key of another type."""
        failed: dict[int, tuple[SinkRecord, Exception]] = {}
        for record, result in zip(written, results, strict=True):
            if isinstance(result, Exception):
                if record is None:
                    raise ConnectError(f"the offsets cannot be written: {result}") from result
                failed.setdefault(id(record), (record, result))
        for record, error in failed.values():
            self.context.errant_records.report(record, error)

    # --- commands -------------------------------------------------------------------------------------------------

    def collection(self, record: SinkRecord) -> str:
        """Return the key of the stream, list or set that a record goes into."""
        return str(self._options["redis.key"]).replace("${topic}", record.topic)

    def key(self, record: SinkRecord) -> bytes | str:
        """Return the key that a record has of its own. Raises DataError."""
        before, own = self.collection(record), _member(record)
        text = before + str(self._options["redis.separator"]) if before else ""
        return text.encode() + own if isinstance(own, bytes) else text + own

    def expire(self, pipeline: Pipeline, key: bytes | str) -> None:
        if self._options["redis.ttl.ms"] >= 0:
            pipeline.pexpire(key, self._options["redis.ttl.ms"])

    def stop(self) -> None:
        if self._client is not None:
            self._client.close()


def _member(record: SinkRecord) -> bytes | str:
    if record.key is None:
        raise DataError("the record has no key, which is the key in Redis: use ValueToKey, or XADD, RPUSH or LPUSH")
    return record.key if isinstance(record.key, bytes) else text_of(record.key_schema, record.key)


def _value(record: SinkRecord) -> bytes | str:
    return record.value if isinstance(record.value, bytes) else text_of(record.value_schema, record.value)


def _fields(record: SinkRecord) -> dict[str, bytes | str]:
    if not isinstance(record.value, Struct | Mapping):
        raise DataError("the value must be a struct or a map, whose fields are written: use SET, or HoistField")
    fields = {
        str(name): cell if isinstance(cell, bytes) else to_text(cell)
        for name, cell in record.value.items() if cell is not None
    }  # fmt: skip
    if not fields:
        raise DataError("the value has no field that is not null")
    return fields


def _set(task: RedisSinkTask, pipeline: Pipeline, record: SinkRecord) -> None:
    key = task.key(record)
    if record.value is None:
        pipeline.delete(key)
        return
    pipeline.set(key, _value(record))
    task.expire(pipeline, key)


def _hset(task: RedisSinkTask, pipeline: Pipeline, record: SinkRecord) -> None:
    key = task.key(record)
    fields = None if record.value is None else _fields(record)
    pipeline.delete(key)  # fields that the new value does not have any more
    if fields is not None:
        pipeline.hset(key, mapping=fields)
        task.expire(pipeline, key)


def _xadd(task: RedisSinkTask, pipeline: Pipeline, record: SinkRecord) -> None:
    if record.value is not None:
        pipeline.xadd(task.collection(record), _fields(record))


def _push(name: str) -> Callable[[RedisSinkTask, Pipeline, SinkRecord], None]:
    def push(task: RedisSinkTask, pipeline: Pipeline, record: SinkRecord) -> None:
        if record.value is not None:
            getattr(pipeline, name)(task.collection(record), _value(record))

    return push


def _sadd(task: RedisSinkTask, pipeline: Pipeline, record: SinkRecord) -> None:
    change = pipeline.srem if record.value is None else pipeline.sadd
    change(task.collection(record), _member(record))


def _zadd(task: RedisSinkTask, pipeline: Pipeline, record: SinkRecord) -> None:
    member = _member(record)
    if record.value is None:
        pipeline.zrem(task.collection(record), member)
        return
    try:
        score = float(record.value)
    except (TypeError, ValueError):
        raise DataError("the value must be a number, the score: use ExtractField") from None
    pipeline.zadd(task.collection(record), {member: score})


_COMMANDS: Mapping[str, Callable[[RedisSinkTask, Pipeline, SinkRecord], None]] = {
    "SET": _set,
    "HSET": _hset,
    "XADD": _xadd,
    "RPUSH": _push("rpush"),
    "LPUSH": _push("lpush"),
    "SADD": _sadd,
    "ZADD": _zadd,
}


class RedisSinkConnector(SinkConnector):
    """Strings, hashes, streams, lists and sets of Redis or Valkey."""

    task_class = RedisSinkTask
    config_def = _DEFINITIONS

    def task_configs(self, tasks_max: int) -> list[dict[str, str]]:
        return [dict(self.configs)] * tasks_max

    @classmethod
    def alter_offsets(cls, configs: Configs, offsets: Mapping[TopicPartition, int | None]) -> None:
        options = _DEFINITIONS.parse(configs)
        if not options["exactly.once"]:
            return
        with _translated("the offsets in Redis cannot be changed"), _client(options) as client:
            for tp, offset in offsets.items():
                key = _offset_key(options, configs.get("name", ""), tp)
                if offset is None:
                    client.delete(key)
                else:
                    client.set(key, offset)
