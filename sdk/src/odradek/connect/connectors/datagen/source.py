"""Datagen: records of well-known shapes, for demos, loads and tests.

Every value follows from the seed, the task, the number of the record and the name of its field, so a task that starts
again behind its stored offset goes on with the same stream, and nothing is lost or doubled.
"""

from __future__ import annotations

from pathlib import Path

from odradek.connect.config import ConfigDef, ConfigValue, Kind, between, non_empty, one_of
from odradek.connect.connectors.datagen.chance import Chance
from odradek.connect.connectors.datagen.quickstarts import QUICKSTARTS, quickstart
from odradek.connect.connectors.datagen.shape import Shape
from odradek.connect.errors import ConfigError
from odradek.connect.plugin import Configs, SourceConnector, SourceTask
from odradek.connect.record import SourceRecord

_BATCH_MAX = 500


def _shape(options: Configs) -> Shape:
    """Return the shape that configurations name. Raises ConfigError."""
    text, file, key = options["schema.string"], options["schema.filename"], options["schema.keyfield"] or None
    if text and file:
        raise ConfigError("schema.string and schema.filename are both given: choose one")
    if file:
        try:
            text = Path(file).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise ConfigError(f"schema.filename: {file} cannot be read: {error}") from None
    if text:
        return Shape.of_text(text, key)
    if key:
        raise ConfigError("schema.keyfield is for a schema of your own: set schema.string or schema.filename")
    return quickstart(str(options["quickstart"]).lower())


class DatagenTask(SourceTask):
    """Makes the records of one task."""

    def start(self, configs: Configs) -> None:
        options = DatagenConnector.config_def.parse(configs)
        self._task = int(configs.get("task.number", 0))
        self._shape = _shape(options)
        self._topic: str = options["kafka.topic"]
        self._interval_s = options["max.interval"] / 1000
        self._end: int = options["iterations"]
        self._seed = f"{options['random.seed']}/{self._task}"
        self._partition = {"task": self._task}
        stored = self.context.offset(self._partition)
        self._number = 0 if stored is None else int(stored["iteration"])
        self._due_s = self.context.clock.monotonic()

    def poll(self) -> list[SourceRecord]:
        if 0 <= self._end <= self._number:
            self.context.wait(0.5)
            return []
        if self._interval_s:
            self.context.wait(max(0.0, self._due_s - self.context.clock.monotonic()))
            self._due_s = self.context.clock.monotonic() + self._interval_s
        count = 1 if self._interval_s else _BATCH_MAX
        if self._end >= 0:
            count = min(count, self._end - self._number)
        return [self._next() for _ in range(count)]

    def _next(self) -> SourceRecord:
        now_ms = self.context.clock.now_ms()
        shape = self._shape
        value = shape.value(Chance(self._seed, self._number), now_ms)
        self._number += 1
        return SourceRecord(
            topic=self._topic,
            key=None if shape.key is None else value[shape.key],
            key_schema=shape.key_schema,
            value=value,
            value_schema=shape.schema,
            timestamp_ms=now_ms,
            source_partition=self._partition,
            source_offset={"iteration": self._number},
        )


class DatagenConnector(SourceConnector):
    """Records of well-known shapes, users, orders, page views and others, or of one of your own."""

    task_class = DatagenTask
    config_def = (
        ConfigDef()
        .define(
            "kafka.topic", Kind.STRING, documentation="The topic to write to.", importance="HIGH", allowed=non_empty(),
            also=("topic",),
        )
        .define(
            "quickstart", Kind.STRING, "orders", "The shape of the records.", importance="HIGH",
            allowed=one_of(*QUICKSTARTS, ignore_case=True),
        )
        .define(
            "schema.string", Kind.STRING, "", "A shape of your own: an Avro schema in JSON, whose `arg.properties` "
            "say how values are chosen.", importance="HIGH",
        )
        .define("schema.filename", Kind.STRING, "", "The same in a file of the worker.", importance="HIGH")
        .define(
            "schema.keyfield", Kind.STRING, "", "The field of such a schema that is the key; empty: records without "
            "keys.", importance="HIGH",
        )
        .define(
            "max.interval", Kind.LONG, 500, "Time between two records of a task, in ms; 0: as fast as possible.",
            allowed=between(0),
        )
        .define("iterations", Kind.LONG, -1, "Number of records of each task; -1: no end.")
        .define("random.seed", Kind.LONG, 0, "Another seed gives other records.", importance="LOW")
    )  # fmt: skip

    @classmethod
    def validate(cls, configs: Configs) -> dict[str, ConfigValue]:
        validated = super().validate(configs)
        if not any(config_value.errors for config_value in validated.values()):
            try:
                _shape({name: config_value.value for name, config_value in validated.items()})
            except ConfigError as error:
                name = "schema.filename" if validated["schema.filename"].value else "schema.string"
                validated[name].errors.append(str(error))
        return validated

    def start(self, configs: Configs) -> None:
        super().start(configs)
        _shape(self.config_def.parse(configs))

    def task_configs(self, tasks_max: int) -> list[dict[str, str]]:
        return [{**self.configs, "task.number": str(number)} for number in range(tasks_max)]
