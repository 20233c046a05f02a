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
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Annotated, Any, Literal, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import typer

from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, Server, client_configs, profile
from odradek.cli.output import Output, OutputOption, show_data
from odradek.errors import ErrorCode, KafkaError

CLOCK_WARN_S, CLOCK_FAIL_S = 60, 240  # SigV4 allows 300
_CODES = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
}
_COLOURS = {"ok": "green", "warn": "yellow", "FAIL": "red"}


class Finding(NamedTuple):
    """The result of one check."""

    outcome: Literal["ok", "warn", "FAIL"]
    check: str
    text: str


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
            yield _checked("topics", lambda: f"{len(admin.list_topics())} topics")
            yield _round_trip(admin, configs)
    except KafkaError as error:
        yield Finding("FAIL", "connect", _advice(error))
    yield from check_store()


def check_reach(server: str) -> list[Finding]:
    """Check that the address answers, and compare its clock with ours."""
    asked_s = time.time()
    try:
        with urlopen(Request(server, method="GET"), timeout=10) as answer:  # nosec B310: http(s), checked
            headers = answer.headers
    except HTTPError as error:
        headers = error.headers  # the request was not signed, so it is refused: the service is there
    except (URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        return [Finding("FAIL", "reach", f"{server} does not answer ({reason}): check the address and the network")]
    found = [Finding("ok", "reach", f"{server} answers")]
    with suppress(TypeError, ValueError):
        skew_s = abs(parsedate_to_datetime(headers["Date"]).timestamp() - (asked_s + time.time()) / 2)
        found.append(clock_finding(skew_s))
    return found


def clock_finding(skew_s: float) -> Finding:
    """Judge a difference of the clocks: signatures are valid for five minutes."""
    if skew_s >= CLOCK_FAIL_S:
        return Finding(
            "FAIL", "clock", f"off by {skew_s:.0f} s: requests are refused from 300 s on. Set this clock (NTP)"
        )
    if skew_s >= CLOCK_WARN_S:
        return Finding("warn", "clock", f"off by {skew_s:.0f} s: set this clock (NTP) before it is 300 s")
    return Finding("ok", "clock", f"within {max(1, round(skew_s))} s")


def _round_trip(admin: Any, configs: dict[str, Any]) -> Finding:
    from odradek import Consumer, NewTopic, Producer, TopicPartition

    name = f"odradek-doctor-{uuid.uuid4().hex[:12]}"

    def work() -> str:
        admin.create_topics([NewTopic(name, 1)])
        try:
            started = time.perf_counter()
            with Producer(**configs) as producer:
                producer.send(name, b"well?").result(30)
            produced = time.perf_counter()
            with Consumer(**configs, auto_offset_reset="earliest") as consumer:
                consumer.assign([TopicPartition(name, 0)])
                deadline = time.monotonic() + 30
                while time.monotonic() < deadline:
                    if any(record.value == b"well?" for records in consumer.poll(1000).values() for record in records):
                        fetched = time.perf_counter()
                        return f"produce {produced - started:.2f} s, fetch {fetched - produced:.2f} s"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the record was acknowledged but not returned within 30 s")
        finally:
            with suppress(KafkaError):
                admin.delete_topics([name])

    return _checked("round trip", work)


def _checked(check: str, work: Callable[[], str]) -> Finding:
    try:
        return Finding("ok", check, work())
    except KafkaError as error:
        return Finding("warn" if error.code in _CODES else "FAIL", check, _advice(error))


def _advice(error: KafkaError) -> str:
    """Return the error with advice on the next step."""
    text = str(error).rstrip(".")
    if "HTTP 403" in text or error.code is ErrorCode.SASL_AUTHENTICATION_FAILED:
        return (
            f"{text}. Attach the client policy (ClientPolicyArn) to your role, or use the profile's account; "
            "the embedded service accepts only the key that `odradek local` printed"
        )
    if error.code in _CODES:
        return f"{text}. You lack an ACL for this check; the service itself answers"
    if error.is_retryable:
        return f"{text}. Check the dashboard and the functions' logs, then try again"
    return text


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
