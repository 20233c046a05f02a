"""Checks of a service from outside: `odradek doctor` and the console's health page run them. They block."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from odradek.errors import ErrorCode, KafkaError
from odradek.model.trigger import TriggerStatus
from odradek.operations.alarms import read_alarms
from odradek.operations.health.capacity import (
    TableCapacity,
    faults_of_mode,
    faults_of_scaling,
    faults_of_use,
    read_scaling,
    read_use,
)
from odradek.operations.storage import TableStatus

_DAY_MS = 86_400_000
CLOCK_WARN_S, CLOCK_FAIL_S = 60, 240  # SigV4 allows 300
_TABLES = ("Log", "Groups", "Catalog")  # in the names of outputs
_CODES = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
}


class Finding(NamedTuple):
    """The result of one check."""

    outcome: Literal["ok", "warn", "FAIL"]
    check: str
    text: str


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


def round_trip(admin: Any, configs: dict[str, Any]) -> Finding:
    """Produce a record to a new topic, fetch it, and delete the topic."""
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

    return checked("round trip", work)


def trigger_findings(statuses: Iterable[TriggerStatus]) -> Iterator[Finding]:
    """Say which triggers wait after a failure, or have no topic. Pure."""
    known = list(statuses)
    if not known:
        return
    bad = False
    for status in known:
        name = status.trigger.name
        waiting = [each for each in status.partitions if each.lag and each.error_ms and each.error_ms >= each.called_ms]
        failing = max(waiting, key=lambda each: each.error_ms, default=None)
        if not status.topic_exists:
            bad = True
            yield Finding(
                "warn", "triggers", f"{name}: topic {status.trigger.topic} does not exist: delete the trigger"
            )
        elif failing is not None and status.trigger.is_enabled:
            bad = True
            lag = f"{len(waiting)} partitions with {sum(each.lag for each in waiting)} records wait"
            yield Finding(
                "warn", "triggers", f"{name}: {lag} after: {failing.error} (odradek triggers describe {name})"
            )
    if not bad:
        yield Finding("ok", "triggers", f"{len(known)} triggers, none of which waits after a failure")


def topic_findings(tables: Sequence[TableStatus], now_ms: int) -> list[Finding]:
    """Judge what maintenance has noted of topics that are tables; a refused segment is told for a day."""
    found = []
    for each in tables:
        if each.behind_why:
            since = datetime.fromtimestamp(each.behind_since_ms / 1000, UTC)
            name = f"the Iceberg table {each.iceberg}" if each.iceberg else "the Iceberg table"
            text = f"{each.topic}: {name} is behind since {since:%Y-%m-%d %H:%M} UTC: {each.behind_why}"
            found.append(Finding("warn", "iceberg", text))
        if each.refused and now_ms - each.refused_ms < _DAY_MS:
            text = f"{each.topic}: {each.refused} segments could not become Parquet files; the last: {each.refused_why}"
            found.append(Finding("warn", "parquet", text))
        if each.untyped and now_ms - each.untyped_ms < _DAY_MS:
            found.append(Finding("warn", "parquet", f"{each.untyped} files lack typed columns: {each.untyped_why}"))
    followed = sum(bool(each.iceberg) and not each.behind_why for each in tables)
    if followed:
        found.append(Finding("ok", "iceberg", f"{followed} tables have all closed segments"))
    return found


def checked(check: str, work: Callable[[], str]) -> Finding:
    """Run a check; a refusal for want of an ACL is a warning."""
    try:
        return Finding("ok", check, work())
    except KafkaError as error:
        return Finding("warn" if error.code in _CODES else "FAIL", check, advice(error))


def advice(error: KafkaError) -> str:
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


def check_deployment(outputs: Mapping[str, str], region: str) -> Iterator[Finding]:
    """Check the settings of the tables and queues of a deployment, and its alarms; nothing without its outputs.

    Args:
        outputs: of the deployment's stacks.
    """
    if "LogTableName" not in outputs:
        return
    try:
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        return
    try:
        client = boto3.client("dynamodb", region_name=region)
        for table in _TABLES:
            yield from table_findings(client, outputs[f"{table}TableName"], _capacity(outputs, table))
    except (BotoCoreError, ClientError, KeyError, ValueError) as error:
        yield Finding("warn", "tables", f"the tables cannot be checked ({error}): you may lack the permission")
    try:
        for table in _TABLES:
            if (capacity := _capacity(outputs, table)) is not None:
                scaling = boto3.client("application-autoscaling", region_name=region)
                cloudwatch = boto3.client("cloudwatch", region_name=region)
                yield capacity_finding(scaling, cloudwatch, outputs[f"{table}TableName"], capacity)
    except (BotoCoreError, ClientError, KeyError, ValueError) as error:
        text = f"the use of provisioned tables cannot be checked ({error}): you may lack the permission"
        yield Finding("warn", "capacity", text)
    if "MaintenanceQueueUrl" not in outputs:
        return  # a deployment of an earlier release
    try:
        client = boto3.client("sqs", region_name=region)
        urls = outputs["MaintenanceQueueUrl"], outputs["MaintenanceDeadLettersUrl"]
        yield queue_finding(*(_attributes(client, url) for url in urls))
    except (BotoCoreError, ClientError, KeyError) as error:
        yield Finding("warn", "maintenance", f"the queue cannot be checked ({error}): you may lack the permission")
    name = outputs.get("MaintenanceFunctionName", "")
    if name.endswith("-maintenance"):
        yield from alarm_findings(name.removesuffix("maintenance"), region)


def alarm_findings(prefix: str, region: str) -> Iterator[Finding]:
    """Report the alarms of a deployment that ring."""
    try:
        alarms = read_alarms(prefix, region)
    except KafkaError as error:
        yield Finding("warn", "alarms", error.message)
        return
    ringing = [each for each in alarms if each.state == "ALARM"]
    for each in ringing:
        yield Finding("warn", "alarms", f"{each.name} rings: {each.description or each.reason}")
    if alarms and not ringing:
        yield Finding("ok", "alarms", f"none of {len(alarms)} rings")


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


def table_findings(dynamodb: Any, name: str, capacity: TableCapacity | None = None) -> Iterator[Finding]:
    """Report settings of a table that differ from those of the stacks.

    Args:
        capacity: what the stage has provisioned; None: the table is on demand.
    """
    table = dynamodb.describe_table(TableName=name)["Table"]
    wrong = list(faults_of_mode(table, capacity))
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
        mode = "on demand" if capacity is None else "provisioned capacity"
        yield Finding("ok", "tables", f"{name}: {mode}, point-in-time recovery")


def capacity_finding(autoscaling: Any, cloudwatch: Any, name: str, capacity: TableCapacity) -> Finding:
    """Judge how a provisioned table scales, and whether its load has outgrown it. Raises botocore's errors."""
    wrong = list(faults_of_scaling(read_scaling(autoscaling, name), capacity))
    use = read_use(cloudwatch, name, datetime.now(UTC))
    wrong += faults_of_use(use, capacity)
    if wrong:
        return Finding("warn", "capacity", f"{name} {'; it '.join(wrong)} (docs/OPERATIONS.md, Provisioned tables)")
    used = ", ".join(f"{used:,.0f} of {capacity.bounds[kind][1]:,} {kind}" for kind, used in use.used.items())
    return Finding("ok", "capacity", f"{name}: at most {used} a second of late, none throttled")


def _capacity(outputs: Mapping[str, str], table: str) -> TableCapacity | None:
    text = outputs.get(f"{table}TableCapacity")
    return None if text is None else TableCapacity.parse(text)
