"""`odradek restore --to TIME`: a deployment on AWS as it was at an earlier second.

    1. the tables can be restored to that second, and no gateway and no job runs
    2. the functions stop
    3. DynamoDB restores the tables into new ones; deleted objects come back, where the bucket keeps them
    4. the audit looks at the restored tables: is every object there that they refer to?
    5. when the last invocation has ended, the deployment's tables become equal to the restored ones
    6. tasks of maintenance are forgotten, the functions start as new versions, the restored tables are deleted

Up to step 4 nothing has changed: where that fails, or something is missing, the functions start again. From step 5 on
they stay stopped until the command has done its work; it may be interrupted and run again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer

from odradek.cli.connection import profile
from odradek.cli.output import Output, show_data
from odradek.cli.screen import confirm
from odradek.errors import ErrorCode, KafkaError, OdradekError, StoreUnavailable
from odradek.extras import extra

if TYPE_CHECKING:
    from odradek.engine.audit.decisions import AuditReport

_FUNCTION = "-maintenance"
_MISSING = ("missing", "damaged")  # kinds of findings
_NEEDED = ("LogTableName", "GroupsTableName", "CatalogTableName", "BucketName", "MaintenanceFunctionName")


@dataclass(frozen=True, slots=True)
class Deployment:
    """The deployment to restore: a profile of `odradek configure`."""

    prefix: str  # of names: odradek-prod
    region: str
    tables: tuple[str, str, str]  # log, groups, catalog
    bucket: str
    wal_bucket: str | None
    queue_url: str | None

    @classmethod
    def of(cls, outputs: Mapping[str, str], region: str) -> Deployment:
        """From the outputs of the stacks. Raises KafkaError(INVALID_CONFIG)."""
        missing = [name for name in _NEEDED if not outputs.get(name)]
        if missing:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"the profile lacks {', '.join(missing)}: run `odradek configure` again"
            )
        return cls(
            outputs["MaintenanceFunctionName"].removesuffix(_FUNCTION),
            region,
            (outputs["LogTableName"], outputs["GroupsTableName"], outputs["CatalogTableName"]),
            outputs["BucketName"],
            outputs.get("WalBucketName"),
            outputs.get("MaintenanceQueueUrl"),
        )

    @property
    def buckets(self) -> str:
        """As ODRADEK_BUCKET has it."""
        return self.bucket if self.wal_bucket is None else f"{self.bucket},{self.wal_bucket}"


def parse_moment(text: str) -> datetime:
    """A second, with its zone: 2026-11-22T10:00:00Z. Raises KafkaError(INVALID_CONFIG)."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"--to is a time with its zone, like 2026-11-22T10:00:00Z, not {text!r}"
        )
    return moment.astimezone(UTC).replace(microsecond=0)


def restore_deployment(
    to: str, *, accept_missing: bool, yes: bool, output: Output, endpoint_url: str | None = None
) -> None:
    """See the module. Raises KafkaError, StoreError, OdradekError."""
    moment = parse_moment(to)
    chosen_profile = profile()
    if chosen_profile is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "which deployment? Run `odradek configure --stack NAME` first")
    with extra("aws"):
        from boto3 import client as boto3_client
    from botocore.exceptions import BotoCoreError, ClientError

    def client(service: str) -> Any:
        made: Any = boto3_client  # typed for literal names alone
        return made(service, region_name=chosen_profile.region, endpoint_url=endpoint_url)

    deployment = Deployment.of(chosen_profile.outputs, chosen_profile.region)
    restore = Restore(deployment, moment, client, endpoint_url=endpoint_url)
    try:
        restore.check()
        confirm(
            f"Set {chosen_profile.name} back to {moment:%Y-%m-%d %H:%M:%S} UTC? What was written since is lost; "
            "its functions stop until this is done.",
            yes=yes,
        )
        done = restore.run(accept_missing=accept_missing)
    except ClientError as error:
        reason = error.response.get("Error", {}).get("Message", str(error))
        raise StoreUnavailable(f"AWS refuses {error.operation_name}: {reason}. Run the same command again") from None
    except BotoCoreError as error:
        raise StoreUnavailable(f"AWS cannot be asked: {error}. Run the same command again") from None
    if not show_data(done, output):
        typer.echo(
            f"restored {chosen_profile.name} to {done['restored_to']}: {done['items_put']:,} items put, "
            f"{done['items_deleted']:,} deleted, {done['objects_brought_back']:,} objects brought back"
        )
        typer.echo("Start gateways and jobs; restart producers, so that they get new producer ids.")


class Restore:
    """One restore of one deployment; `client` makes boto3's clients."""

    def __init__(self, deployment: Deployment, to: datetime, client: Any, *, endpoint_url: str | None = None) -> None:
        from odradek.adapters.aws.deployment import Functions
        from odradek.functions.environment import HANDLERS

        self._deployment, self._to, self._client = deployment, to, client
        self._endpoint_url = endpoint_url
        self._dynamodb, self._s3 = client("dynamodb"), client("s3")
        names = [f"{deployment.prefix}-{name}" for name in HANDLERS]
        self._functions = Functions(client("lambda"), names, now_s=time.time, sleep=time.sleep)

    def check(self) -> None:
        """Step 1. Raises KafkaError(INVALID_CONFIG), OdradekError."""
        from odradek.adapters.aws.deployment import running_gateways, running_jobs
        from odradek.adapters.aws.restore import check_recoverable

        check_recoverable(self._dynamodb, self._deployment.tables, self._to)
        prefix = self._deployment.prefix
        if jobs := running_jobs(self._client("glue"), prefix):
            raise OdradekError(
                f"stop these jobs first (aws glue batch-stop-job-run), they write to the store: {', '.join(jobs)}"
            )
        if gateways := running_gateways(self._client("ecs"), prefix):
            raise OdradekError(
                "stop the gateways first (aws ecs update-service --desired-count 0), they write to the store: "
                f"{', '.join(gateways)}"
            )

    def run(self, *, accept_missing: bool) -> dict[str, Any]:
        """Steps 2 to 6; what was done, as plain data. Raises OdradekError where objects are missing."""
        from odradek.adapters.aws import restore

        tables = self._deployment.tables
        ended_s = self._functions.stop()
        try:
            names, brought_back, missing = self._prepare(accept_missing)
            self._wait_until(ended_s)
        except BaseException:
            if not self._functions.is_changing():  # nothing has: the log goes on as it was
                self._functions.start()
            raise
        self._functions.note_change()
        changes = [restore.make_equal(self._dynamodb, own, names[own], sleep=time.sleep) for own in tables]
        restore.renew_served_tables(self._dynamodb, tables[2], now_ms=round(time.time() * 1000))
        if self._deployment.queue_url is not None:
            self._client("sqs").purge_queue(QueueUrl=self._deployment.queue_url)
        self._functions.start(f"{self._to:%Y-%m-%dT%H:%M:%SZ}")
        restore.drop_tables(self._dynamodb, list(names.values()))
        return {
            "restored_to": f"{self._to:%Y-%m-%dT%H:%M:%SZ}",
            "items_put": sum(change.put for change in changes),
            "items_deleted": sum(change.deleted for change in changes),
            "objects_brought_back": brought_back,
            "missing": missing,
        }

    def _prepare(self, accept_missing: bool) -> tuple[dict[str, str], int, list[str]]:
        """Steps 3 and 4: the names of the restored tables, how many objects came back, and which ranges did not."""
        from odradek.adapters.aws import restore

        tables = self._deployment.tables
        names = restore.restore_tables(self._dynamodb, tables, self._to, sleep=time.sleep, tell=_tell)
        brought_back = 0
        if restore.has_versions(self._s3, self._deployment.bucket):
            brought_back = restore.bring_back(self._s3, self._deployment.bucket, self._to)
        report = asyncio.run(self._audited([names[table] for table in tables]))
        missing = [f"{finding.place} {finding.detail}" for finding in report.findings if finding.kind.value in _MISSING]
        if missing and not accept_missing:
            raise OdradekError(
                f"nothing was restored: {len(missing)} ranges are no longer there, the first: {missing[0]}. The bucket "
                "keeps what is deleted only with keep_deleted_days (docs/OPERATIONS.md). Restore to less than an hour "
                f"ago, or add --accept-missing; the restored tables are {', '.join(names.values())}"
            )
        return names, brought_back, missing

    def _wait_until(self, moment_s: float) -> None:
        left_s = moment_s - time.time()
        if left_s > 0:
            _tell(f"waiting {left_s:,.0f} s for the last invocations to end")
            time.sleep(left_s)

    async def _audited(self, names: list[str]) -> AuditReport:
        from odradek.adapters.aws import open_aws
        from odradek.engine.audit.store import audit_store
        from odradek.engine.engine import Engine
        from odradek.settings import Settings
        from odradek.system import SystemRng

        log, groups, catalog = names
        store = open_aws(
            region=self._deployment.region,
            log_table=log,
            groups_table=groups,
            catalog_table=catalog,
            bucket=self._deployment.buckets,
            endpoint_url=self._endpoint_url,
        )
        async with store:
            engine = Engine(
                tables=store, objects=store.objects, clock=store.clock, rng=SystemRng(), settings=Settings()
            )
            return await audit_store(engine, fast=True)


def _tell(text: str) -> None:
    typer.echo(text, err=True)
