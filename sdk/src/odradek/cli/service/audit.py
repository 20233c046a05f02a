"""`odradek audit`: check the integrity of a store. It opens the store directly, without the functions.

Exit codes: 0 clean, 1 findings, 2 it could not run. An embedded store is opened read-only, also while its service
runs; a repair needs exclusive access. A store on AWS may be repaired while it is in use.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from odradek.cli.connection import DEFAULT_DATA_DIR, DataDir
from odradek.cli.output import Output, OutputOption, show_data, show_rows
from odradek.cli.screen import Advance, progress
from odradek.errors import ErrorCode, KafkaError, OdradekError, StoreUnavailable

if TYPE_CHECKING:
    from odradek.adapters.aws import AwsStore
    from odradek.adapters.embedded import EmbeddedStore
    from odradek.engine.audit.decisions import AuditReport
    from odradek.ports.meter import Meter, Usage
    from odradek.ports.table_catalog import TableCatalog
    from odradek.settings import Settings


def audit(
    data_dir: DataDir = DEFAULT_DATA_DIR,
    bucket: Annotated[
        str,
        typer.Option(envvar="ODRADEK_BUCKET", help="Audit a store on AWS: its bucket. The tables are required too."),
    ] = "",
    log_table: Annotated[str, typer.Option(envvar="ODRADEK_LOG_TABLE", help="AWS: name of the log table.")] = "",
    groups_table: Annotated[
        str, typer.Option(envvar="ODRADEK_GROUPS_TABLE", help="AWS: name of the groups table.")
    ] = "",
    catalog_table: Annotated[
        str, typer.Option(envvar="ODRADEK_CATALOG_TABLE", help="AWS: name of the catalog table.")
    ] = "",
    region: Annotated[str, typer.Option(envvar="AWS_REGION", help="AWS: region.")] = "",
    endpoint_url: Annotated[
        str, typer.Option(envvar="ODRADEK_ENDPOINT_URL", help="Endpoint of S3 and DynamoDB, if not AWS.")
    ] = "",
    fast: Annotated[bool, typer.Option("--fast", help="Existence and lengths only, not every byte.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Also report what the next maintenance would remove.")
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="Remove what is certainly not needed, then audit again.")
    ] = False,
    skip_damaged: Annotated[
        bool,
        typer.Option(
            "--skip-damaged", help="With --repair: give up the offsets that cannot be read. Intact records stay."
        ),
    ] = False,
    output: OutputOption = Output.TABLE,
) -> int:
    """Check that everything in the log can be read, and that nothing is stored without need.

    Exit codes: 0 clean, 1 findings, 2 it could not run.

    Example: [bold]odradek audit --data-dir ./data[/bold]
    """
    from odradek.adapters.iceberg import embedded_catalog, open_catalog
    from odradek.settings import Settings

    try:
        if skip_damaged and not repair:
            raise KafkaError(ErrorCode.INVALID_CONFIG, "--skip-damaged is a repair: also give --repair")
        if bucket:
            tables = {"log": log_table, "groups": groups_table, "catalog": catalog_table}
            missing = [f"--{name}-table" for name, value in tables.items() if not value]
            if missing:
                raise KafkaError(
                    ErrorCode.INVALID_CONFIG, f"a store on AWS has three tables: also give {', '.join(missing)}"
                )
        with progress("auditing", None, unit="bytes") as advance:
            meter = ReadBytes(advance)
            if bucket:
                store: EmbeddedStore | AwsStore = _open_aws(tables, bucket, region, endpoint_url, meter)
            else:
                store = _open_embedded(str(data_dir), meter, writes=repair)
            settings = Settings.from_env(os.environ)
            if bucket:
                catalog = open_catalog(settings.table_catalog, f"s3://{bucket}")
            else:
                catalog = embedded_catalog(settings.table_catalog, data_dir)
            report = asyncio.run(
                _audit(store, catalog, settings, fast=fast, strict=strict, repair=repair, skip_damaged=skip_damaged)
            )
    except OdradekError as error:
        print(f"odradek: cannot audit: {error}", file=sys.stderr)
        return 2
    if not show_data(as_json(report), output):
        _print_table(report)
    return 0 if report.is_clean else 1


class ReadBytes:
    """A meter that counts the bytes read from objects, for the progress of an audit."""

    def __init__(self, advance: Advance) -> None:
        self._advance = advance

    def add(self, operation: str, usage: Usage) -> None:
        self._advance(usage.object_bytes_read)


def _open_aws(tables: dict[str, str], bucket: str, region: str, endpoint_url: str, meter: Meter) -> AwsStore:
    from odradek.adapters.aws import open_aws

    return open_aws(
        region=region or None,
        log_table=tables["log"],
        groups_table=tables["groups"],
        catalog_table=tables["catalog"],
        bucket=bucket,
        endpoint_url=endpoint_url or None,
        meter=meter,
    )


def _open_embedded(data_dir: str, meter: Meter, *, writes: bool) -> EmbeddedStore:
    from odradek.adapters.embedded import open_embedded
    from odradek.adapters.embedded.store import DATABASE_NAME

    if not os.path.exists(os.path.join(data_dir, DATABASE_NAME)):
        raise StoreUnavailable(
            f"{data_dir} is not the folder of an embedded service: give it with --data-dir, "
            "or a store on AWS with --bucket"
        )
    return open_embedded(data_dir, meter=meter, read_only=not writes, check="full")


async def _audit(
    store: EmbeddedStore | AwsStore,
    catalog: TableCatalog | None,
    settings: Settings,
    *,
    fast: bool,
    strict: bool,
    repair: bool,
    skip_damaged: bool,
) -> AuditReport:
    from odradek.engine.audit.store import audit_store
    from odradek.engine.engine import Engine
    from odradek.system import SystemRng

    async with store:
        engine = Engine(
            tables=store,
            objects=store.objects,
            clock=store.clock,
            rng=SystemRng(),
            settings=settings,
        )
        engine.keep_tables(catalog)
        return await audit_store(engine, fast=fast, strict=strict, repair=repair, skip_damaged=skip_damaged)


def as_json(report: AuditReport) -> dict[str, Any]:
    """Return the report as plain data."""
    return {
        "clean": report.is_clean,
        "findings": [
            {"kind": finding.kind.value, "place": finding.place, "detail": finding.detail}
            for finding in report.findings
        ],
        "pending": {name: count for name, count in sorted(report.pending.items()) if count},
        "checked": dict(sorted(report.checked.items())),
        "repaired": {name: count for name, count in sorted(report.repaired.items()) if count},
        "skipped": report.skipped,
    }


def _print_table(report: AuditReport) -> None:
    if report.findings:
        rows = [
            {"finding": finding.kind.value, "where": finding.place, "what": finding.detail}
            for finding in report.findings
        ]
        show_rows(rows, ["finding", "where", "what"])
    for skipped in report.skipped:
        typer.echo(f"skipped: {skipped}")
    for title, counts in (("repaired", report.repaired), ("pending", report.pending), ("checked", report.checked)):
        if any(counts.values()):
            shown = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in sorted(counts.items()) if count)
            typer.echo(f"{title}: {shown}")
    verdict = "clean" if report.is_clean else f"{len(report.findings)} findings"
    typer.echo(typer.style(verdict, fg="green" if report.is_clean else "red"))
