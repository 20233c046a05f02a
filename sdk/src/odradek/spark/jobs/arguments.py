"""Arguments of jobs: a frozen dataclass per job, parsed the same way locally, on Glue and from a file.

    defaults  <  --config FILE (YAML: the same names)  <  command line

`--checkpoint-location` and `--checkpoint_location` are the same. Glue passes arguments that no job declares, and has
its own parser; locally an unknown name is an error. Types come from the dataclass: str, int, float, bool,
tuple[str, ...]. A tuple is separated by commas (except within parentheses), or a list in YAML.

The comment of a field is its text in --help (field_comments.py).
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from typing import Any, TypeVar

from odradek.errors import ErrorCode, KafkaError
from odradek.spark.jobs.field_comments import field_comments
from odradek.spark.jobs.files import read_text
from odradek.spark.options import FAIL, MARK, SKIP

_TRUE, _FALSE = ("true", "yes", "1", ""), ("false", "no", "0")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreArguments:
    """The store, and the session."""

    JOB_NAME: str = ""  # Glue's name of the job; empty: the folder's
    store: str = ""  # embedded:<data dir>; empty, with log_table and its like, is AWS
    log_table: str = ""  # AWS: name of the log table
    catalog_table: str = ""  # AWS: name of the catalog table
    bucket: str = ""  # AWS: the bucket of the records
    prefix: str = ""  # of all object keys in the bucket
    region: str = ""  # AWS: region; empty: that of the environment
    endpoint_url: str = ""  # endpoint of S3 and DynamoDB, if not AWS
    bootstrap_servers: str = ""  # URL of an embedded store's service, its only writer
    shuffle_partitions: int = 4  # fixed by the first run on a checkpoint
    corrupt_batches: str = "fail"  # a batch that cannot be decoded: fail, or skip it, counted
    metrics: str = "line"  # line, emf (CloudWatch reads it from the log) or none

    def store_options(self) -> dict[str, str]:
        """Return the options of source and sink that locate the store."""
        options = {
            "store": self.store or "aws",
            "logTable": self.log_table,
            "catalogTable": self.catalog_table,
            "bucket": self.bucket,
            "prefix": self.prefix,
            "region": self.region,
            "endpointUrl": self.endpoint_url,
        }
        return {name: value for name, value in options.items() if value}

    def read_options(self) -> dict[str, str]:
        """Return the options of every source: where the store is, and what to do with a corrupt batch.

        Raises KafkaError(INVALID_CONFIG) for an unknown --corrupt-batches.
        """
        if self.corrupt_batches not in (FAIL, SKIP):
            raise _refused(f"--corrupt-batches must be {FAIL} or {SKIP}, not {self.corrupt_batches!r}")
        how = {"corruptBatches": self.corrupt_batches} if self.corrupt_batches != FAIL else {}
        return self.store_options() | how

    def source(self, topic: str, **more: str) -> dict[str, str]:
        """Return options of the source for a topic, from its beginning unless `more` sets another start.

        Raises KafkaError as `read_options`.
        """
        return {**self.read_options(), "subscribe": topic, "startingOffsets": "earliest", **more}

    def sink(self, topic: str = "") -> dict[str, str]:
        """Return options of the sink; the topic is for rows without one."""
        options = self.store_options()
        if self.store and self.bootstrap_servers:
            options["bootstrapServers"] = self.bootstrap_servers
        return options | ({"topic": topic} if topic else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamArguments(StoreArguments):
    """Arguments of a job that is a streaming query."""

    checkpoint_location: str  # folder or s3:// of the query's position and state, a different one for each job
    once: bool = False  # process what exists now, then end: for scheduled runs
    starting_offsets: str = "earliest"  # start of a new checkpoint
    max_offsets_per_trigger: int = 200_000  # maximum number of records of a micro-batch
    trigger: str = "2 seconds"  # how often to look for records
    idle_after_seconds: float = 60.0  # time without new records after which the query rests and only heads are read
    idle_backoff_seconds: float = 30.0  # longest pause between two looks while the query rests
    state_store: str = "rocksdb"  # or memory; fixed by the first run on a checkpoint
    dead_letter_topic: str = ""  # for records that do not parse or are too late; empty: they are counted and dropped

    def stream(self, topic: str, columns: str = "key,value,timestamp") -> dict[str, str]:
        """Return options of the source for a stream of a topic.

        Under --corrupt-batches=skip the source marks corrupt batches, so that `run_streams` can count and drop them.
        """
        counted = {}
        if self.corrupt_batches == SKIP:
            counted, columns = {"corruptBatches": MARK}, f"{columns},timestampType"
        return self.source(
            topic,
            **counted,
            startingOffsets=self.starting_offsets,
            maxOffsetsPerTrigger=str(self.max_offsets_per_trigger),
            columns=columns,
        )


A = TypeVar("A", bound=StoreArguments)


def parse_arguments(arguments_class: type[A], argv: Sequence[str], *, prog: str, description: str = "") -> A:
    """Parse the arguments of a job.

    Raises:
        KafkaError: INVALID_CONFIG for a value, a missing name, or a wrong file.
        SystemExit: an unknown name on the command line, or --help; not on Glue.
    """
    specs = {spec.name: spec for spec in fields(arguments_class)}
    arguments = _command_line(arguments_class, [underscored(word) for word in argv], prog, description)
    config = arguments.pop("config", None)
    merged: dict[str, Any] = {**(_from_file(config, list(specs)) if config else {}), **arguments}
    missing = [spec.name for spec in specs.values() if spec.default is MISSING and spec.name not in merged]
    if missing:
        raise _refused(f"required: {', '.join('--' + name.replace('_', '-') for name in missing)}")
    return arguments_class(**{name: _typed(specs[name], value) for name, value in merged.items()})


def _command_line(arguments_class: type[Any], argv: Sequence[str], prog: str, description: str) -> dict[str, Any]:
    try:
        from awsglue.utils import getResolvedOptions  # type: ignore[import-not-found]
    except ImportError:
        return vars(_parser(arguments_class, prog, description).parse_args(list(argv)))
    names = [*(spec.name for spec in fields(arguments_class)), "config"]
    passed = {word.removeprefix("--").partition("=")[0] for word in argv if word.startswith("--")}
    wanted = [name for name in names if name in passed]
    resolved = getResolvedOptions(["job.py", *argv], wanted)
    return {name: resolved[name] for name in wanted}


def _parser(arguments_class: type[Any], prog: str, description: str) -> argparse.ArgumentParser:
    """Return a parser whose help shows each argument's meaning, type and default, and whether it is required."""
    needed = [spec.name for spec in fields(arguments_class) if spec.default is MISSING]
    parser = argparse.ArgumentParser(
        prog=prog,
        usage=" ".join([prog, *(f"--{name} {name.upper()}" for name in needed), "[--name value ...]"]),
        description=description,
        epilog="Names may be written with hyphens: --checkpoint-location. The command line overrides --config.",
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    own = {spec.name for spec in fields(arguments_class)} - {
        spec.name for base in arguments_class.__bases__ for spec in _fields_of(base)
    }
    groups = {
        "required": [spec for spec in fields(arguments_class) if spec.name in needed],
        "arguments of this job": [
            spec for spec in fields(arguments_class) if spec.name in own and spec.name not in needed
        ],
        "arguments of all jobs": [
            spec for spec in fields(arguments_class) if spec.name not in own and spec.name not in needed
        ],
    }
    comments = field_comments(arguments_class)
    for title, specs in groups.items():
        group = parser.add_argument_group(title)
        for spec in specs:
            # A flag may stand alone: --once.
            group.add_argument(
                f"--{spec.name}", nargs="?", const="", metavar=_METAVARS.get(str(spec.type), "LIST"),
                help=_help(spec, comments.get(spec.name, "")),
            )  # fmt: skip
    parser.add_argument("--config", nargs="?", const="", metavar="FILE", help="YAML of names and values")
    return parser


_METAVARS = {"str": "TEXT", "int": "N", "float": "NUMBER", "bool": "BOOL"}


def _fields_of(arguments_class: type[Any]) -> Sequence[Field[Any]]:
    return fields(arguments_class) if is_dataclass(arguments_class) else ()


def _help(spec: Field[Any], comment: str) -> str:
    if spec.default is MISSING:
        return comment.replace("%", "%%")
    default = ",".join(spec.default) if isinstance(spec.default, tuple) else str(spec.default)
    if isinstance(spec.default, bool):
        default = default.lower()
    return f"{comment} (default: {default or 'empty'})".replace("%", "%%")


def underscored(word: str) -> str:
    """Convert `--a-b=x-y` to `--a_b=x-y`."""
    name, equals, value = word.partition("=")
    return name.replace("-", "_").replace("__", "--", 1) + equals + value if word.startswith("--") else word


def _from_file(path: str, names: Sequence[str]) -> dict[str, Any]:
    import yaml

    try:
        document = yaml.safe_load(read_text(path))
    except OSError as error:
        raise _refused(f"cannot read {path}: {error}") from None
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = f" at line {where.line + 1}" if where else ""
        raise _refused(f"{path} is not valid YAML{line}: {getattr(error, 'problem', None) or error}") from None
    if not isinstance(document, Mapping):
        raise _refused(f"{path} must map names of arguments to values")
    arguments = {str(name).replace("-", "_"): value for name, value in document.items()}
    for name in arguments:
        if name not in names:
            close = difflib.get_close_matches(name, names, n=1)
            hint = f": did you mean {close[0]}?" if close else ""
            raise _refused(f"{path}: unknown argument {name}{hint}")
    return arguments


def _typed(spec: Field[Any], value: Any) -> Any:
    type_name = str(spec.type)
    if type_name.startswith("tuple"):
        return tuple(str(element) for element in value) if isinstance(value, list) else tuple(split_list(str(value)))
    text = str(value).strip() if value is not None else ""
    if type_name == "bool":
        if text.lower() in _TRUE + _FALSE:
            return text.lower() in _TRUE
        raise _refused(f"--{spec.name} must be true or false, not {text!r}")
    if type_name in {"int", "float"}:
        try:
            return int(text) if type_name == "int" else float(text)
        except ValueError:
            raise _refused(f"--{spec.name} must be a number, not {text!r}") from None
    return text


def split_list(text: str) -> list[str]:
    """Split at commas outside parentheses, brackets and quotes; empty parts are left out."""
    parts, depth, quote, part = [], 0, "", ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in "([<{":
            depth += 1
        elif character in ")]>}":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(part)
            part = ""
            continue
        part += character
    return [part.strip() for part in [*parts, part] if part.strip()]


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)
