"""The processes of a deployment that write to its store: its functions, stopped and started; gateways and jobs, found.

A function is stopped by reserving no concurrency for it: Lambda refuses every invocation, and ends what runs within the
function's time-out. What was reserved before is noted in tags of the function, so that another process can start it.

Started functions get a new version, and so new environments: a warm one remembers a log that is no more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from odradek.errors import StoreUnavailable

ALIAS: Final = "live"  # infra/constructs/release.py
RESERVED_TAG: Final = "odradek:reserved-before-restore"
STOPPED_TAG: Final = "odradek:stopped-at"  # seconds since the epoch
CHANGING_TAG: Final = "odradek:tables-are-changing"  # of the first function: they are neither old nor restored
STARTED_FOR: Final = "RESTORED_TO"  # variable: makes a version new
_NONE: Final = "none"
_POLL_S: Final = 2.0
_WAITS: Final = 60


class Functions:
    """The functions of a deployment.

    Args:
        client: boto3's of Lambda.
        names: of the functions.
        now_s: seconds since the epoch.
        sleep: waits for seconds.
    """

    def __init__(
        self, client: Any, names: Sequence[str], *, now_s: Callable[[], float], sleep: Callable[[float], None]
    ) -> None:
        self._lambda = client
        self._names = names
        self._now_s = now_s
        self._sleep = sleep

    def stop(self) -> float:
        """Refuse every invocation from now on; returns when the last one that runs has ended (seconds since the epoch).

        May be repeated; what was reserved before the first time is kept.
        """
        ends_s = 0.0
        for name in self._names:
            configuration = self._lambda.get_function_configuration(FunctionName=name)
            arn = configuration["FunctionArn"]
            tags = self._lambda.list_tags(Resource=arn)["Tags"]
            if STOPPED_TAG not in tags:
                reserved = self._lambda.get_function_concurrency(FunctionName=name).get("ReservedConcurrentExecutions")
                tags = {RESERVED_TAG: _NONE if reserved is None else str(reserved), STOPPED_TAG: f"{self._now_s():.0f}"}
                self._lambda.tag_resource(Resource=arn, Tags=tags)
            self._lambda.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=0)
            ends_s = max(ends_s, float(tags[STOPPED_TAG]) + configuration["Timeout"])
        return ends_s

    def note_change(self) -> None:
        """Note that the tables are about to change: from now on the functions must not start before that is done."""
        self._lambda.tag_resource(Resource=self._first_arn(), Tags={CHANGING_TAG: "true"})

    def is_changing(self) -> bool:
        """Whether a change of the tables has begun and not ended, by whichever process."""
        return CHANGING_TAG in self._lambda.list_tags(Resource=self._first_arn())["Tags"]

    def _first_arn(self) -> str:
        return str(self._lambda.get_function_configuration(FunctionName=self._names[0])["FunctionArn"])

    def start(self, restored_to: str | None = None) -> None:
        """Take invocations again, with what was reserved before.

        Args:
            restored_to: a time that makes a new version; None: nothing has changed, the environments may go on.
        """
        for name in self._names:
            arn = self._lambda.get_function_configuration(FunctionName=name)["FunctionArn"]
            if restored_to is not None:
                self._renew(name, restored_to)
            reserved = self._lambda.list_tags(Resource=arn)["Tags"].get(RESERVED_TAG, _NONE)
            if reserved == _NONE:
                self._lambda.delete_function_concurrency(FunctionName=name)
            else:
                self._lambda.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=int(reserved))
            self._lambda.untag_resource(Resource=arn, TagKeys=[RESERVED_TAG, STOPPED_TAG, CHANGING_TAG])

    def _renew(self, name: str, restored_to: str) -> None:
        configuration = self._lambda.get_function_configuration(FunctionName=name)
        variables = configuration.get("Environment", {}).get("Variables", {})
        self._lambda.update_function_configuration(
            FunctionName=name, Environment={"Variables": {**variables, STARTED_FOR: restored_to}}
        )
        self._wait(name)
        with suppress(self._lambda.exceptions.ResourceNotFoundException):  # a function that no client calls has none
            self._lambda.get_alias(FunctionName=name, Name=ALIAS)
            version = self._lambda.publish_version(FunctionName=name)["Version"]
            self._lambda.update_alias(
                FunctionName=name,
                Name=ALIAS,
                FunctionVersion=version,
                RoutingConfig={"AdditionalVersionWeights": {}},
            )

    def _wait(self, name: str) -> None:
        for _ in range(_WAITS):
            status = self._lambda.get_function_configuration(FunctionName=name).get("LastUpdateStatus", "Successful")
            if status == "Successful":
                return
            if status == "Failed":
                break
            self._sleep(_POLL_S)
        raise StoreUnavailable(f"{name} does not take its new configuration: see why, then run the same command again")


def running_jobs(glue: Any, prefix: str) -> list[str]:
    """The Glue jobs of a deployment that run, as `name run-id`."""
    running = []
    for page in glue.get_paginator("get_jobs").paginate():
        for job in page["Jobs"]:
            if not job["Name"].startswith(f"{prefix}-"):
                continue
            runs = glue.get_job_runs(JobName=job["Name"], MaxResults=5)["JobRuns"]
            running += [
                f"{job['Name']} {run['Id']}"
                for run in runs
                if run["JobRunState"] in ("STARTING", "RUNNING", "STOPPING", "WAITING")
            ]
    return running


def running_gateways(ecs: Any, prefix: str) -> list[str]:
    """The services of a deployment's gateways that have tasks, as `cluster service`."""
    running = []
    for page in ecs.get_paginator("list_clusters").paginate():
        for cluster in page["clusterArns"]:
            if not cluster.rpartition("/")[2].startswith(f"{prefix}-gateway-"):
                continue
            for services in ecs.get_paginator("list_services").paginate(cluster=cluster):
                if not services["serviceArns"]:
                    continue
                described = ecs.describe_services(cluster=cluster, services=services["serviceArns"])["services"]
                running += [
                    f"{cluster} {service['serviceName']}"
                    for service in described
                    if service["desiredCount"] or service["runningCount"]
                ]
    return running
