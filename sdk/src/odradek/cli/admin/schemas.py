"""`odradek schemas`: subjects and versions of the schema registry."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from odradek.cli.command_group import CommandGroup
from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, Server, connected
from odradek.cli.output import Output, OutputOption, show_data, show_rows
from odradek.cli.screen import confirm
from odradek.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from odradek.client.serializers.registry import Schema
    from odradek.operations.schemas import RegistryAdmin, SchemaVersion, SubjectDetail

schemas = typer.Typer(cls=CommandGroup, help="List, compare, check, register and delete schemas.", no_args_is_help=True)

Subject = Annotated[str, typer.Argument(help="Name of the subject, such as orders-value.")]
File = Annotated[Path, typer.Argument(help="File with the schema; - is standard input.")]
Kind = Annotated[str, typer.Option("--kind", "-k", help="AVRO, JSON or PROTOBUF.")]
Reference = Annotated[
    list[str] | None, typer.Option("--reference", help='"name subject version"; may be repeated, for references.')
]
RegistryUrl = Annotated[
    str | None, typer.Option("--registry", help="URL of the registry of a Kafka port: https://user:password@host")
]


def _registry(server: str, data_dir: Path, registry: str | None) -> RegistryAdmin:
    return asyncio.run(connected(server, data_dir, registry_url=registry).registry())


@schemas.command("list")
def list_schemas(
    registry: RegistryUrl = None,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the subjects with their latest versions."""
    from odradek.operations import plain

    rows = _registry(bootstrap_servers, data_dir, registry).subjects()
    show_rows([plain(row) for row in rows], ["subject", "kind", "version", "versions", "schema_id"], output)


@schemas.command()
def describe(
    subject: Subject,
    version: Annotated[int, typer.Option("--version", "-v", min=0, help="Only this one; 0: all.")] = 0,
    registry: RegistryUrl = None,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """Print the versions of a subject, its compatibility level, and which schemas refer to it."""
    from odradek.operations import plain

    admin = _registry(bootstrap_servers, data_dir, registry)
    detail = admin.subject(subject)
    chosen = [_version(detail, version)] if version else list(detail.versions)
    rows = [plain(shown) | {"referenced_by": admin.referenced_by(subject, shown.version)} for shown in chosen]
    if show_data(plain(detail) | {"versions": rows}, output):
        return
    typer.echo(f"{subject}: compatibility {detail.level}{' (the default)' if detail.level_is_default else ''}")
    for shown in chosen:
        typer.echo(f"version {shown.version}, id {shown.schema_id}, {shown.kind}\n{shown.pretty}")


@schemas.command()
def diff(
    subject: Subject,
    old: Annotated[int, typer.Option("--from", min=0, help="Version; 0: the one before the other.")] = 0,
    new: Annotated[int, typer.Option("--to", min=0, help="Version; 0: the latest.")] = 0,
    registry: RegistryUrl = None,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """Print the difference of two versions.

    Example: [bold]odradek schemas diff orders-value --from 1 --to 3[/bold]
    """
    from odradek.operations import plain
    from odradek.operations.schemas import difference

    detail = _registry(bootstrap_servers, data_dir, registry).subject(subject)
    after = _version(detail, new or detail.versions[0].version)
    earlier = [version.version for version in detail.versions if version.version < after.version]
    if not old and not earlier:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{subject} has no version before {after.version}")
    lines = difference(_version(detail, old or earlier[0]).pretty, after.pretty)
    if not show_data([plain(line) for line in lines], output):
        for line in lines:
            typer.echo(f"{line.sign} {line.text}")


@schemas.command()
def check(
    subject: Subject,
    file: File,
    kind: Kind = "AVRO",
    reference: Reference = None,
    registry: RegistryUrl = None,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check whether a schema is compatible, and register nothing. The exit code is 1 if it is not."""
    from odradek.operations import plain

    result = _registry(bootstrap_servers, data_dir, registry).check(subject, _schema(file, kind, reference))
    if not show_data(plain(result), output):
        typer.echo("compatible" if result.is_compatible else "\n".join(("not compatible", *result.messages)))
    if not result.is_compatible:
        raise typer.Exit(1)


@schemas.command()
def register(
    subject: Subject,
    file: File,
    kind: Kind = "AVRO",
    reference: Reference = None,
    registry: RegistryUrl = None,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Register a schema as a new version, and print its id.

    Example: [bold]odradek schemas register orders-value order.avsc[/bold]
    """
    admin = _registry(bootstrap_servers, data_dir, registry)
    typer.echo(f"{subject}: schema id {admin.add(subject, _schema(file, kind, reference))}")


@schemas.command("set-compatibility")
def set_compatibility(
    subject: Subject,
    level: Annotated[str, typer.Argument(help="BACKWARD, FORWARD, FULL, each with _TRANSITIVE; NONE; default.")],
    registry: RegistryUrl = None,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Set the compatibility level of a subject; `default` is the registry's."""
    from odradek.operations.schemas import LEVELS

    chosen = "" if level.lower() == "default" else level.upper()
    if chosen and chosen not in LEVELS:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"unknown level {level!r}: use {', '.join(LEVELS)}, default")
    _registry(bootstrap_servers, data_dir, registry).set_level(subject, chosen)
    typer.echo(f"{subject}: compatibility {chosen or 'the default'}")


@schemas.command()
def delete(
    subject: Subject,
    version: Annotated[int, typer.Option("--version", "-v", min=0, help="Only this one; 0: all.")] = 0,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    registry: RegistryUrl = None,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Delete a subject, or one version of it. Schemas stay readable by their ids."""
    target = f"version {version} of {subject}" if version else f"the subject {subject}"
    confirm(f"Delete {target}?", yes=yes)
    admin = _registry(bootstrap_servers, data_dir, registry)
    if version:
        admin.delete_version(subject, version)
    else:
        admin.delete_subject(subject)
    typer.echo(f"deleted {target}")


def _version(subject: SubjectDetail, number: int) -> SchemaVersion:
    """Return a version of a subject. Raises KafkaError(INVALID_CONFIG) that names those there are."""
    for version in subject.versions:
        if version.version == number:
            return version
    numbers = ", ".join(str(version.version) for version in reversed(subject.versions))
    raise KafkaError(ErrorCode.INVALID_CONFIG, f"{subject.subject} has no version {number}: it has {numbers}")


def _schema(file: Path, schema_type: str, references: list[str] | None) -> Schema:
    """Read a schema. Raises KafkaError(INVALID_CONFIG)."""
    from odradek.client.serializers.registry import Schema
    from odradek.operations.schemas import parse_references

    try:
        text = sys.stdin.buffer.read().decode() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"cannot read {file}: {error}") from None
    return Schema(text, schema_type.upper(), parse_references("\n".join(references or [])))
