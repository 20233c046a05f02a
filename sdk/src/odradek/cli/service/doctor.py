"""`odradek doctor`: check a deployment, and advise on each problem.

    reach        the address answers and lists its functions      clock     the clocks, compared by the Date header
    versions     both sides support the APIs that the SDK needs    topics    the admin function works
    round trip   a record is produced and fetched, in a new topic that is deleted again
    tables       billing mode, point-in-time recovery, protection of the tables; public access of the bucket
    maintenance  the maintenance queue: tasks that failed permanently, and the dead-letter queue
                 (both only with a profile, which knows their names, and only with the permissions)

`--before-deploy` checks the account instead (account.py).

Each line says ok, warn or FAIL, and what to do. The exit code is 1 if a check fails.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer

from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, Server, client_configs, profile
from odradek.cli.output import Output, OutputOption, show_data
from odradek.errors import ErrorCode, KafkaError
from odradek.operations.health import Finding, advice, check_reach, checked, round_trip

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
        findings = examine(client_configs(bootstrap_servers, data_dir))
    found = show_findings(findings, output)
    if any(finding.outcome == "FAIL" for finding in found):
        raise typer.Exit(1)


def show_findings(findings: Iterable[Finding], output: Output = Output.TABLE) -> list[Finding]:
    """Print the findings, each at once, since a check may take half a minute; return them."""
    found = []
    for finding in findings:
        found.append(finding)
        if output is Output.TABLE:
            outcome = typer.style(f"{finding.outcome:4}", fg=_COLOURS[finding.outcome])
            typer.echo(f"{outcome} {finding.check:11} {finding.text}")
    show_data([finding._asdict() for finding in found], output)
    return found


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
    except KafkaError as error:
        yield Finding("FAIL", "connect", advice(error))
    yield from check_store()


def check_store() -> Iterator[Finding]:
    """Check the settings of tables and queues that a profile names."""
    known = profile()
    if known is None or "LogTableName" not in known.outputs:
        return
    try:
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        return
    try:
        client = boto3.client("dynamodb", region_name=known.region)
        for key in ("LogTableName", "GroupsTableName", "CatalogTableName"):
            yield from table_findings(client, known.outputs[key])
    except (BotoCoreError, ClientError, KeyError) as error:
        yield Finding("warn", "tables", f"the tables cannot be checked ({error}): you may lack the permission")
    if "MaintenanceQueueUrl" not in known.outputs:
        return  # a deployment of an earlier release
    try:
        client = boto3.client("sqs", region_name=known.region)
        urls = known.outputs["MaintenanceQueueUrl"], known.outputs["MaintenanceDeadLettersUrl"]
        yield queue_finding(*(_attributes(client, url) for url in urls))
    except (BotoCoreError, ClientError, KeyError) as error:
        yield Finding("warn", "maintenance", f"the queue cannot be checked ({error}): you may lack the permission")


def queue_finding(queue: dict[str, str], dead_letters: dict[str, str]) -> Finding:
    """Judge the attributes of the maintenance queue and of its dead-letter queue."""
    if "RedrivePolicy" not in queue:
        text = "the queue has no dead-letter queue, so a failing task is retried forever: deploy again"
        return Finding("warn", "maintenance", text)
    if dead := int(dead_letters["ApproximateNumberOfMessages"]):
        text = f"{dead} tasks failed permanently: see maintenance-dead-letters in docs/OPERATIONS.md"
        return Finding("warn", "maintenance", text)
    return Finding("ok", "maintenance", f"{queue['ApproximateNumberOfMessages']} tasks wait, none failed permanently")


def _attributes(sqs: Any, queue_url: str) -> dict[str, str]:
    attributes: dict[str, str] = sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["All"])["Attributes"]
    return attributes


def table_findings(dynamodb: Any, name: str) -> Iterator[Finding]:
    """Report settings of a table that differ from those of the stacks."""
    table = dynamodb.describe_table(TableName=name)["Table"]
    wrong = []
    if table.get("BillingModeSummary", {}).get("BillingMode") != "PAY_PER_REQUEST":
        wrong.append("is not on demand: a busy log will be throttled")
    keys = [(each["AttributeName"], each["KeyType"]) for each in table["KeySchema"]]
    if keys != [("pk", "HASH"), ("sk", "RANGE")]:
        wrong.append("has other keys than pk and sk: it is not an Odradek table")
    backups = dynamodb.describe_continuous_backups(TableName=name)["ContinuousBackupsDescription"]
    recovery = backups.get("PointInTimeRecoveryDescription", {}).get("PointInTimeRecoveryStatus")
    if recovery != "ENABLED":
        wrong.append("cannot be restored to a point in time: enable it, or deploy again")
    for text in wrong:
        yield Finding("FAIL" if "keys" in text else "warn", "tables", f"{name} {text}")
    if not wrong:
        yield Finding("ok", "tables", f"{name}: on demand, point-in-time recovery")
