"""`odradek backup` and `odradek restore`: copy the data of an embedded service while it runs.

A backup is checked before it counts as one: the audit looks for every object that its tables refer to. To survive the
loss of the disk, back up to another disk (--copy), or copy the folder elsewhere.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from odradek.cli.connection import DEFAULT_DATA_DIR, DataDir
from odradek.cli.output import Output, OutputOption, show_data
from odradek.cli.screen import progress
from odradek.errors import ErrorCode, KafkaError, OdradekError, StoreUnavailable
from odradek.extras import extra

if TYPE_CHECKING:
    from odradek.adapters.embedded.backup import Backup, Manifest
    from odradek.engine.audit.decisions import AuditReport

_ATTEMPTS = 3


def backup(
    target: Annotated[Path, typer.Argument(help="Folder to create: it must not exist, or be empty.")],
    copy: Annotated[
        bool,
        typer.Option("--copy", help="Copy objects even if hard links are possible, to survive damage of the disk."),
    ] = False,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """Back up an embedded service, which may be running. Everything acknowledged before the start is included.

    Objects are hard-linked if both folders are on one file system, otherwise copied. The folder also holds the keys of
    clients.

    Example: [bold]odradek backup /backups/$(date +%F) --data-dir ./data[/bold]
    """
    with extra("local"):
        from odradek.adapters.embedded.backup import Backup

    with progress("backing up", None, unit="bytes") as advance:
        making = Backup(data_dir, target, copies=copy, advance=advance)
        manifest = _make(making, target)
    _show(manifest, output, f"backed up {data_dir} to {target}")


def _make(making: Backup, target: Path) -> Manifest:
    """Make a backup, and repeat it if maintenance removed objects meanwhile. Raises StoreUnavailable."""
    from odradek import __version__

    for _ in range(_ATTEMPTS):
        making.secure_objects()
        making.snapshot()
        making.secure_objects()
        report = asyncio.run(_audited(target))
        if report.is_clean:
            return making.finish(created_ms=time.time_ns() // 1_000_000, release=__version__)
    first = report.findings[0]
    raise StoreUnavailable(
        f"{target} is not a valid backup: {len(report.findings)} findings, the first: {first.kind.value} {first.place} "
        f"{first.detail}. Check the store itself with `odradek audit`"
    )


async def _audited(folder: Path) -> AuditReport:
    """Audit whether everything that the tables refer to is in the folder."""
    from odradek.adapters.embedded import open_embedded
    from odradek.engine.audit.store import audit_store
    from odradek.engine.engine import Engine
    from odradek.settings import Settings
    from odradek.system import SystemRng

    async with open_embedded(folder, read_only=True, check="full") as store:
        engine = Engine(tables=store, objects=store.objects, clock=store.clock, rng=SystemRng(), settings=Settings())
        return await audit_store(engine, fast=True)


def restore(
    backup: Annotated[Path | None, typer.Argument(help="Folder created by `odradek backup`.")] = None,
    to: Annotated[
        str, typer.Option("--to", help="AWS: restore the profile's deployment to this time, 2026-11-22T10:00:00Z.")
    ] = "",
    accept_missing: Annotated[
        bool, typer.Option("--accept-missing", help="AWS: restore even where objects are no longer there.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="AWS: do not ask.")] = False,
    endpoint_url: Annotated[
        str, typer.Option(envvar="ODRADEK_ENDPOINT_URL", help="Where AWS's services are, instead of AWS.")
    ] = "",
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """Restore an embedded service from a backup, or a deployment on AWS to an earlier second.

    A data directory must not exist yet: a store is never overwritten. On AWS the tables return to the time of --to, by
    DynamoDB's point-in-time recovery, and deleted objects come back where the bucket keeps them.

    Records written after the backup, or after that time, are missing: restart producers that are still running.
    Consumers may find that the log ends before their offset (OFFSET_OUT_OF_RANGE, auto.offset.reset).

    Example: [bold]odradek restore /backups/2026-11-22 --data-dir ./data[/bold]

    Example: [bold]odradek restore --to 2026-11-22T10:00:00Z[/bold]
    """
    if (backup is None) == (not to):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            "name a backup's folder, or --to a time for a deployment on AWS: one of the two",
        )
    if backup is None:
        from odradek.cli.service.restore import restore_deployment

        restore_deployment(to, accept_missing=accept_missing, yes=yes, output=output, endpoint_url=endpoint_url or None)
        return
    with extra("local"):
        from odradek.adapters.embedded.backup import read_manifest
        from odradek.adapters.embedded.backup import restore as copy_back

    with progress("restoring", read_manifest(backup).bytes, unit="bytes") as advance:
        manifest = copy_back(backup, data_dir, advance=advance)
    report = asyncio.run(_audited(data_dir))
    if not report.is_clean:
        raise OdradekError(
            f"{data_dir} was restored with {len(report.findings)} findings: run `odradek audit` to see them"
        )
    _show(manifest, output, f"restored {data_dir} from {backup}")


def _show(manifest: Manifest, output: Output, text: str) -> None:
    from dataclasses import asdict

    if not show_data(asdict(manifest), output):
        typer.echo(f"{text}: {manifest.objects} objects, {manifest.bytes / 1e6:,.1f} MB")
