"""`odradek doctor`: check a deployment, and advise on each problem.

    reach        the address answers and lists its functions      clock     the clocks, compared by the Date header
    versions     both sides support the APIs that the SDK needs    topics    the admin function works
    round trip   a record is produced and fetched, in a new topic that is deleted again
    triggers     those that wait after a failure, or whose topic is gone
    tables       billing mode, point-in-time recovery, protection of the tables; public access of the bucket
    iceberg, parquet  topics whose Iceberg table is behind, and segments that could not become Parquet files
    maintenance  the maintenance queue: tasks that failed permanently, and the dead-letter queue
    alarms       those of the deployment in CloudWatch that ring
                 (these only with a profile, which knows their names, and only with the permissions; iceberg and parquet
                 also in the folder of an embedded service)

`--before-deploy` checks the account instead (account.py).

Each line says ok, warn or FAIL, and what to do. The exit code is 1 if a check fails.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, Server, client_configs, profile
from odradek.cli.output import Output, OutputOption, show_data
from odradek.errors import ErrorCode, KafkaError, StoreError
from odradek.operations.health.checks import (
    Finding,
    advice,
    check_deployment,
    check_reach,
    checked,
    round_trip,
    topic_findings,
    trigger_findings,
)
from odradek.operations.storage import StorePlace, TableStatus

_TRIGGERS_LOOKED_AT = 100  # a request for each
_COLOURS = {"ok": "green", "warn": "yellow", "FAIL": "red"}


def doctor(
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    before_deploy: Annotated[
        bool, typer.Option("--before-deploy", help="Check the AWS account and region before the first deployment.")
    ] = False,
    reserve: Annotated[
        int, typer.Option("--reserve", min=0, help="Concurrency that the stage reserves, for --before-deploy.")
    ] = 0,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check a deployment, or the embedded service, from this machine, and advise on each problem.

    Example: [bold]odradek doctor[/bold]

    Example: [bold]odradek doctor --before-deploy --reserve 300[/bold]
    """
    if before_deploy:
        from odradek.cli.service.account import examine_account

        findings = examine_account(None, reserve, os.environ.get("ODRADEK_ENDPOINT_URL") or None)
    else:
        findings = chain(examine(client_configs(bootstrap_servers, data_dir)), check_tables(data_dir))
    shown_findings = show_findings(findings, output)
    if any(finding.outcome == "FAIL" for finding in shown_findings):
        raise typer.Exit(1)


def show_findings(findings: Iterable[Finding], output: Output = Output.TABLE) -> list[Finding]:
    """Print the findings, each at once, since a check may take half a minute; return them."""
    shown_findings = []
    for finding in findings:
        shown_findings.append(finding)
        if output is Output.TABLE:
            outcome = typer.style(f"{finding.outcome:4}", fg=_COLOURS[finding.outcome])
            typer.echo(f"{outcome} {finding.check:11} {finding.text}")
    show_data([finding._asdict() for finding in shown_findings], output)
    return shown_findings


def examine(configs: dict[str, Any]) -> Iterator[Finding]:
    """Run all checks in order; without a reachable service only the first."""
    server = str(configs["bootstrap_servers"])
    if not server.startswith(("http://", "https://")):
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"odradek doctor needs a URL, not {server!r}: it asks over HTTP")
    reach = check_reach(server)
    yield from reach
    if reach[0].outcome == "FAIL":
        return
    from odradek import Admin

    try:
        with Admin(**configs) as admin:
            yield checked("topics", lambda: f"{len(admin.list_topics())} topics")
            yield round_trip(admin, configs)
            yield from check_triggers(admin)
    except KafkaError as error:
        yield Finding("FAIL", "connect", advice(error))
    yield from check_store()


def check_triggers(admin: Any) -> Iterator[Finding]:
    """Check the triggers that the caller may describe."""
    try:
        triggers = admin.list_triggers()
        yield from trigger_findings(admin.describe_trigger(trigger.name) for trigger in triggers[:_TRIGGERS_LOOKED_AT])
    except KafkaError as error:
        if error.code is not ErrorCode.UNSUPPORTED_VERSION:  # a deployment without triggers
            yield Finding("warn", "triggers", f"the triggers cannot be read: {error.message}")


def check_tables(data_dir: Path) -> Iterator[Finding]:
    """Check what maintenance has noted of topics that are tables, in the store itself."""
    chosen_profile = profile()
    store_place = (
        StorePlace.of_deployment(chosen_profile.outputs, chosen_profile.region or "")
        if chosen_profile is not None
        else None
    )
    store_place = store_place or StorePlace.of_folder(data_dir)
    if store_place is None:
        return
    opened = store_place

    async def read() -> list[TableStatus]:
        async with opened.open() as view:
            return await view.tables()

    try:
        yield from topic_findings(asyncio.run(read()), round(time.time() * 1000))
    except (KafkaError, StoreError) as error:
        yield Finding("warn", "iceberg", f"the state of tables cannot be read ({error}): you may lack the permission")


def check_store() -> Iterator[Finding]:
    """Check what the profile's deployment has on AWS."""
    chosen_profile = profile()
    return iter(()) if chosen_profile is None else check_deployment(chosen_profile.outputs, chosen_profile.region)
