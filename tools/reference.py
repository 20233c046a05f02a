"""Write docs/reference.md from the code: every configuration, setting, option and argument. `make reference`.

What something means is said once, where it is defined: definitions of topic and group configurations, comments beside
the fields of dataclasses, the options of Spark's source and sink. tests/unit/test_reference.py compares the page.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from odradek.client.config import AdminConfig, Check, ClientConfig, ConsumerConfig, ProducerConfig, ShareConsumerConfig
from odradek.engine.catalog import topic_configs
from odradek.engine.catalog.config_values import number_in_words
from odradek.engine.groups import configs as group_configs
from odradek.settings import ENV_PREFIX, Settings
from odradek.spark.jobs.arguments import StoreArguments, StreamArguments
from odradek.spark.jobs.field_comments import field_comments
from odradek.spark.options import SOURCE_OPTIONS, Option
from odradek.spark.sink.options import SINK_OPTIONS

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reference.md"

_HEAD = """\
# Configuration reference

Every configuration, setting, option and argument with its type, default, allowed values and effect. This page is
generated from the code: `make reference` writes it. Names are Kafka's where Kafka has them; clients write them with
underscores.
"""
_TOPICS = """\
## Topic configurations

Set them with `odradek topics create NAME -c name=value` or `odradek topics alter`; `odradek topics describe NAME
--defaults` shows those of a topic.
"""
_RETENTION = """\
**Retention goes by the records' own timestamps.** With `message.timestamp.type=CreateTime`, the default, a record whose
event time is older than `retention.ms` is deleted by the first maintenance five minutes after it was written
(`ODRADEK_RETENTION_DELAY_MS`): a backfill of last year's data into a topic that keeps a week vanishes. Before a
backfill set `retention.ms=-1`, or `message.timestamp.type=LogAppendTime`, which counts from the time of writing.
Timestamps in the future keep a record for longer. Apache Kafka does the same, and looks every five minutes.
"""
_GROUPS = """\
## Group configurations

Set them with `odradek groups configure GROUP name=value`. Those named `consumer.` belong to consumer groups, those
named `streams.` to streams groups, the others to share groups.
"""
_SETTINGS = """\
## Service settings

Of the functions, the gateway and `odradek local`, as environment variables. Values that contradict each other or exceed
what the store allows are refused at the start with a message that names them. In tests and in code they are fields of
`odradek.settings.Settings`.
"""
_CLIENTS = """\
## Client configurations

Keyword arguments of `Producer`, `Consumer`, `ShareConsumer` and `Admin`, and of the same classes in `odradek.aio`.
"""
_SPARK = """\
## Spark source and sink

Options of `spark.read` and `spark.readStream` with `format("odradek")`, and of `write` and `writeStream`. A stream
begins at the end of its topics unless `startingOffsets` says otherwise; it says so in the log when that leaves records
unread.
"""
_AVAILABLE_NOW = """\
**`trigger(availableNow=True)` and windows.** `odradek.spark.register` sets
`spark.sql.streaming.triggerAvailableNowWrapper.enabled`: a run then ends with a micro-batch without data, which with
`outputMode("append")` writes the windows that the run's own data closed. With `maxOffsetsPerTrigger`, PySpark 4.2 and
later run as many micro-batches as it takes. PySpark 4.1 tells a source in Python neither its trigger nor that a run is
over: a new query ends after its first limited micro-batch, and its next run is refused. For micro-batches of bounded
size on 4.1 call `odradek.spark.available_now.process_available`, as the jobs and `odradek sql --once` do.
"""
_JOBS = """\
## Jobs

`odradek jobs list` names the jobs that are installed, `odradek jobs run NAME --help` prints what follows.
"""


def page() -> str:
    """The whole page, a line break at its end."""
    parts = [
        _HEAD,
        _TOPICS,
        table(_topics()),
        _RETENTION,
        _GROUPS,
        table(_groups()),
        _SETTINGS,
        table(_settings()),
        _CLIENTS,
        *_clients(),
        _SPARK,
        "### Source\n",
        table(_options(SOURCE_OPTIONS)),
        _AVAILABLE_NOW,
        "### Sink\n",
        table(_options(SINK_OPTIONS)),
        _JOBS,
        "### Arguments of all jobs\n",
        table(_arguments(StreamArguments, ())),
        *_jobs(),
    ]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


Cells = Sequence[str]


def table(rows: Iterable[Cells]) -> str:
    """A table of Markdown; the first row is its header."""
    lines = ["| " + " | ".join(_escaped(cell) for cell in row) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * (lines[0].count(" | ") + 1))
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ").strip() or " "


def _topics() -> Iterator[Cells]:
    yield "name", "type", "default", "allowed", "effect"
    settings = Settings()
    for name, config in sorted(topic_configs.DEFINITIONS.items()):
        default = topic_configs.default_of(name, settings)
        default = number_in_words(int(default)) if default.lstrip("-").isdigit() else default
        yield f"`{name}`", config.type.name.lower(), default, config.check.allowed, config.documentation


def _groups() -> Iterator[Cells]:
    yield "name", "type", "default", "allowed", "effect"
    settings = Settings()
    for name, config in sorted(group_configs.DEFINITIONS.items()):
        yield (
            f"`{name}`",
            config.type.name.lower(),
            config.default(settings),
            config.check.allowed,
            config.documentation,
        )


def _settings() -> Iterator[Cells]:
    yield "variable", "type", "default", "effect"
    comments = field_comments(Settings)
    for spec in fields(Settings):
        yield f"`{ENV_PREFIX}{spec.name.upper()}`", str(spec.type), _default(spec), comments[spec.name]


def _clients() -> Iterator[str]:
    shared = {spec.name for spec in fields(ClientConfig)}
    for title, config_class, left_out in (
        ("All clients", ClientConfig, set[str]()),
        ("Producer", ProducerConfig, shared),
        ("Consumer", ConsumerConfig, shared),
        ("ShareConsumer", ShareConsumerConfig, shared),
    ):
        yield f"### {title}\n"
        yield table(_client(config_class, left_out))
    assert {spec.name for spec in fields(AdminConfig)} == shared, "an admin client has configurations of its own"


def _client(config_class: type[ClientConfig], left_out: set[str]) -> Iterator[Cells]:
    yield "name", "default", "allowed", "effect"
    comments = field_comments(config_class)
    for spec in fields(config_class):
        if spec.name not in left_out:
            check = spec.metadata.get("check")
            allowed = check.allowed if isinstance(check, Check) else "an object"
            yield f"`{spec.name}`", _default(spec), allowed, comments[spec.name]


def _options(options: Mapping[str, Option]) -> Iterator[Cells]:
    yield "option", "default", "effect"
    for name, option in options.items():
        yield f"`{name}`", option.default or "empty", option.effect


def _jobs() -> Iterator[str]:
    shared = {spec.name for spec in fields(StreamArguments)}
    for path in sorted((ROOT / "glue_jobs").glob("*/job.py")):
        name = path.parent.name
        job = importlib.import_module(f"odradek.glue_jobs.{name}.job")
        first = (job.__doc__ or "").splitlines()[0].removeprefix(f"{name}: ")
        yield f"### {name}\n"
        yield f"{first[:1].upper()}{first[1:]}\n"
        base = shared if issubclass(job.Arguments, StreamArguments) else {spec.name for spec in fields(StoreArguments)}
        yield table(_arguments(job.Arguments, base))


def _arguments(arguments_class: type[Any], left_out: Iterable[str]) -> Iterator[Cells]:
    yield "argument", "type", "default", "effect"
    comments, left_out = field_comments(arguments_class), set(left_out)
    for spec in fields(arguments_class):
        if spec.name not in left_out:
            kind_name = "list" if str(spec.type).startswith("tuple") else str(spec.type)
            yield f"`--{spec.name.replace('_', '-')}`", kind_name, _default(spec), comments[spec.name]


def _default(spec: Field[Any]) -> str:
    value = spec.default
    if value is MISSING:
        return "**required**"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(value) or "empty"
    if isinstance(value, int):
        return number_in_words(value)
    return "none" if value is None else str(value) or "empty"


def main() -> int:
    """Write the page, or with --check say whether it is up to date."""
    parser = argparse.ArgumentParser(prog="python -m tools.reference", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; 1 where the page is not up to date")
    if parser.parse_args().check:
        if PAGE.read_text(encoding="utf-8") == page():
            return 0
        print("docs/reference.md is not up to date: make reference", file=sys.stderr)
        return 1
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
