"""Stages: the differences between dev and prod. Chosen by the context value `stage`.

dev can be thrown away; prod keeps its data when a stack is deleted or a resource is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from odradek.functions.environment import MAINTAINER, MAINTENANCE, REGISTRY, TABLES, TRIGGER_DISPATCHER, TRIGGERS
from odradek.limits import FUNCTION_TIMEOUT_S_MAX
from odradek.operations.health.capacity import TableCapacity
from odradek.protocol.api import FunctionName
from odradek.settings import Settings

from infra.permissions import STREAMING_JOBS

JOB_TIMEOUT_MINUTES_MAX = 7 * 24 * 60  # that Glue takes
MIB = 1024 * 1024
MERGE_BYTES_MAX = 256 * MIB  # of a maintainer with 1,769 MB
MERGE_COPIES = 2  # that a maintainer has of what it merges: as read, and as sent
MEMORY_MB_MIN = 256  # twice what produce and fetch use for the largest request (`bench.request_cpu --mb 4`)
MEMORY_MB_MAX = 10_240  # that Lambda has
RESTORABLE_DAYS_MAX = 35  # point-in-time recovery of DynamoDB
CANARY_MINUTES = (0, 5, 10, 15, 30)  # that CodeDeploy has
PROVISIONABLE = ("log", "groups", "catalog")  # tables; rows of served tables follow their readers


@dataclass(frozen=True, slots=True)
class FunctionSize:
    """Memory buys CPU: 1,769 MB is one vCPU (Lambda developer guide)."""

    memory_mb: int
    timeout_s: int


FUNCTION_SIZES: dict[str, FunctionSize] = {
    FunctionName.PRODUCE.value: FunctionSize(memory_mb=1024, timeout_s=30),  # CRC of up to 4.5 MB, uploads
    FunctionName.FETCH.value: FunctionSize(memory_mb=1024, timeout_s=30),  # parallel ranged reads, long poll
    FunctionName.COORDINATOR.value: FunctionSize(memory_mb=512, timeout_s=30),
    FunctionName.ADMIN.value: FunctionSize(memory_mb=512, timeout_s=60),  # a topic of many partitions is many heads
    REGISTRY: FunctionSize(memory_mb=512, timeout_s=30),  # a schema is parsed and compared in milliseconds
    TABLES: FunctionSize(memory_mb=1024, timeout_s=30),  # a lookup is a query; who waits for an offset decodes records
    TRIGGERS: FunctionSize(memory_mb=512, timeout_s=60),  # a topic of many partitions is many leases
    TRIGGER_DISPATCHER: FunctionSize(memory_mb=512, timeout_s=FUNCTION_TIMEOUT_S_MAX),  # waits for functions
    MAINTENANCE: FunctionSize(memory_mb=1024, timeout_s=FUNCTION_TIMEOUT_S_MAX),  # plans: reads
    MAINTAINER: FunctionSize(memory_mb=1769, timeout_s=FUNCTION_TIMEOUT_S_MAX),  # merges, compacts
}


@dataclass(frozen=True, slots=True)
class AlarmLimits:
    """Thresholds of the alarms; docs/OPERATIONS.md says what to do."""

    produce_p99_ms_max: int = 2_000
    task_age_s_max: int = 3 * 3600  # of the oldest maintenance task; one that failed once is half as old
    job_lag_s_max: int = 900  # of the jobs in `running_jobs`
    table_throttles_max: int = 100  # in 5 minutes


@dataclass(frozen=True, slots=True)
class ConnectOptions:
    """The function that runs connectors (docs/connect/aws.md)."""

    every_minutes: int = 5  # between two looks for something to do; 0: only triggers and callers start it
    wake_sinks: bool = True  # records in the topics of sinks start a shift, by triggers that the function keeps
    workers: int = 1  # shifts at once, which share the tasks
    memory_mb: int = 1769
    configs: Mapping[str, str] = field(default_factory=dict)  # of the worker: group.id, converters ...
    packages: tuple[str, ...] = ()  # more for the image: drivers of databases, connectors of one's own
    policy_arns: tuple[str, ...] = ()  # managed policies with the rights of the connectors on their targets
    base_image: str = ""  # name@sha256:...; by default a tag of Python's image
    idle_s: int = 10  # how long there must be nothing to do before a shift ends

    def __post_init__(self) -> None:
        if self.every_minutes < 0 or self.workers < 1 or self.idle_s < 1:
            raise ValueError("connect: every_minutes must be 0 or more, workers and idle_s 1 or more")
        for arn in self.policy_arns:
            if not re.fullmatch(r"arn:aws[a-z-]*:iam::(\d{12}|aws):policy/.+", arn):
                raise ValueError(f"connect: policy_arns must be ARNs of managed policies, not {arn!r}")


@dataclass(frozen=True, slots=True)
class Stage:
    """The options of one deployment."""

    name: str  # part of every stack's and function's name
    keeps_data: bool  # retain bucket, tables and logs on deletion; deletion protection on the tables
    log_retention_days: int
    maintenance_every_minutes: int
    glue_workers: int  # of the smallest streaming size; at least 2, one of them is the driver
    keep_deleted_days: int = 0  # how long deleted objects can be brought back: 35, as long as tables; 0: not at all
    job_timeout_minutes: int = JOB_TIMEOUT_MINUTES_MAX  # of a run; Glue restarts only what may run for seven days
    job_maintenance_window: str = "Sun:02"  # UTC; Glue restarts a job of seven days within three hours of it
    running_jobs: tuple[str, ...] = ()  # jobs that are to run all the time: an alarm tells when one is silent or behind
    trigger_workers: int = 50  # dispatchers of triggers at once, 2 to 1,000: what Lambda takes for a queue
    maintenance_workers: int = 2  # maintainers at once, 2 to 1,000: what Lambda takes for a queue
    alarm_email: str = ""  # who is told by mail; others subscribe to the topic AlarmTopicArn
    alarms: AlarmLimits = field(default_factory=AlarmLimits)
    all_alarms: bool = True  # False: only those that say that something is wrong at all, $0.40 a month
    dashboard: bool = False  # $3 a month; CloudWatch's free tier has three
    dead_letters: bool = False  # keep events of maintenance runs that failed three times
    capacities: Mapping[str, TableCapacity] = field(default_factory=dict)  # provisioned, by table; others are on demand
    own_key: bool = False  # a separate KMS key for bucket and tables: $1 a month and requests
    memory_mb: Mapping[str, int] = field(default_factory=dict)  # by function, in place of FUNCTION_SIZES
    reserved_concurrency: Mapping[str, int] = field(default_factory=dict)  # by function; others share the account's
    canary_minutes: int = (
        0  # a tenth of the requests goes to a new version for so long first: 5, 10, 15, 30; 0: at once
    )
    snap_start: bool = False  # functions with a URL start from a snapshot of their memory, which is billed by the hour
    tags: Mapping[str, str] = field(default_factory=dict)  # the owner's, on every resource that has tags
    client_principals: tuple[str, ...] = ()  # ARNs of roles or accounts elsewhere that may call the functions' URLs
    client_org_id: str = ""  # every principal of this AWS organization may: "o-a1b2c3d4e5"
    wal_zone_id: str = ""  # e.g. "use1-az4": the WAL on S3 Express One Zone there; it then lives in that zone alone
    endpoint_vpc_id: str = ""  # a VPC whose clients (gateways, Glue) reach S3 and DynamoDB without the internet
    endpoint_route_table_ids: tuple[str, ...] = ()
    connect: ConnectOptions | None = None  # a function that runs connectors; None: they run elsewhere, or not at all
    settings: Settings = field(default_factory=Settings)  # the functions get them as ODRADEK_* variables

    def __post_init__(self) -> None:
        if self.settings.auto_create_topics:
            raise ValueError("auto_create_topics: the coordinator's role may not create topics (permissions.py)")
        if self.canary_minutes not in CANARY_MINUTES:
            raise ValueError(
                f"canary_minutes must be one of {', '.join(map(str, CANARY_MINUTES))}, not {self.canary_minutes}"
            )
        if not 1 <= self.job_timeout_minutes <= JOB_TIMEOUT_MINUTES_MAX:
            raise ValueError(
                f"job_timeout_minutes must be 1 to {JOB_TIMEOUT_MINUTES_MAX}, not {self.job_timeout_minutes}"
            )
        if not re.fullmatch(r"(Sun|Mon|Tue|Wed|Thu|Fri|Sat):([01]?\d|2[0-3])", self.job_maintenance_window):
            raise ValueError(
                f"job_maintenance_window must be a day and an hour like Sun:02, not {self.job_maintenance_window!r}"
            )
        for table in self.capacities:
            if table not in PROVISIONABLE:
                raise ValueError(f"capacities: {table} is not one of {', '.join(PROVISIONABLE)}")
        unknown = set(self.running_jobs) - set(STREAMING_JOBS)
        if unknown:
            raise ValueError(f"running_jobs: {sorted(unknown)[0]} is not one of {', '.join(STREAMING_JOBS)}")
        if not 0 <= self.keep_deleted_days <= RESTORABLE_DAYS_MAX:
            raise ValueError(
                f"keep_deleted_days must be 0 to {RESTORABLE_DAYS_MAX}, the range in which tables can be restored, "
                f"not {self.keep_deleted_days}"
            )
        for principal in self.client_principals:
            if not re.fullmatch(r"arn:aws[a-z-]*:(iam|sts)::\d{12}:.+|\d{12}", principal):
                raise ValueError(f"client_principals must be ARNs of IAM or numbers of accounts, not {principal!r}")
        if self.client_org_id and not re.fullmatch(r"o-[a-z0-9]{10,32}", self.client_org_id):
            raise ValueError(f"client_org_id must be an id like o-a1b2c3d4e5, not {self.client_org_id!r}")
        for function, memory_mb in self.memory_mb.items():
            if function not in FUNCTION_SIZES:
                raise ValueError(f"memory_mb: {function} is not one of {', '.join(sorted(FUNCTION_SIZES))}")
            if not MEMORY_MB_MIN <= memory_mb <= MEMORY_MB_MAX:
                raise ValueError(
                    f"memory_mb: {function} must have {MEMORY_MB_MIN} to {MEMORY_MB_MAX} MB, not {memory_mb}"
                )
        merged_mb = self.settings.merge_bytes_max / MIB
        if self.size_of(MAINTAINER).memory_mb < MEMORY_MB_MIN + MERGE_COPIES * merged_mb:
            raise ValueError(
                f"memory_mb: the maintainer holds merge_bytes_max {MERGE_COPIES} times: give it at least "
                f"{MEMORY_MB_MIN + MERGE_COPIES * merged_mb:.0f} MB, or lower merge_bytes_max"
            )
        if not 2 <= self.maintenance_workers <= self.reserved_concurrency.get(MAINTAINER, 1000) <= 1000:
            raise ValueError(
                "maintenance_workers must be 2 to 1,000, and within the reserved_concurrency of the maintainer: "
                "messages beyond it would count as failed"
            )
        if not 2 <= self.trigger_workers <= self.reserved_concurrency.get(TRIGGER_DISPATCHER, 1000) <= 1000:
            raise ValueError(
                "trigger_workers must be 2 to 1,000, and within the reserved_concurrency of the trigger-dispatcher"
            )
        for name, size in FUNCTION_SIZES.items():
            if name not in (MAINTENANCE, MAINTAINER) and size.timeout_s * 1000 <= self.settings.request_timeout_ms:
                raise ValueError(
                    f"{name}: timeout_s must exceed request_timeout_ms, so that the function can answer with an error"
                )

    def size_of(self, function: str) -> FunctionSize:
        """Return the size of a function of this stage."""
        size = FUNCTION_SIZES[function]
        return replace(size, memory_mb=self.memory_mb.get(function, size.memory_mb))


STAGES: dict[str, Stage] = {
    stage.name: stage
    for stage in (
        Stage(
            "dev",
            keeps_data=False,
            log_retention_days=7,
            maintenance_every_minutes=15,
            glue_workers=2,
            all_alarms=False,
            settings=Settings(cluster_id="odradek-dev", merge_bytes_max=MERGE_BYTES_MAX),
        ),
        Stage(
            "prod",
            keeps_data=True,
            log_retention_days=90,
            maintenance_every_minutes=5,
            maintenance_workers=60,  # some 1 GiB/s written: docs/OPERATIONS.md
            glue_workers=2,
            dead_letters=True,
            canary_minutes=10,
            # Long polls of consumers may take the rest of the account's quota, and no more.
            reserved_concurrency={FunctionName.PRODUCE.value: 200, FunctionName.COORDINATOR.value: 100},
            settings=Settings(cluster_id="odradek-prod", merge_bytes_max=MERGE_BYTES_MAX),
        ),
    )
}


def stage_of(name: object) -> Stage:
    """Return the stage of that name. Raises SystemExit that lists the known ones."""
    if isinstance(name, str) and name in STAGES:
        return STAGES[name]
    raise SystemExit(f"infra: unknown stage {name!r}: use -c stage={'|'.join(STAGES)}")
