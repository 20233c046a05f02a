"""The environment variables of the functions, and their handler strings: read by lambdas/, written by infra/.

    variable                 functions          value
    ODRADEK_LOG_TABLE        all                name of the log table
    ODRADEK_GROUPS_TABLE     all                name of the groups table
    ODRADEK_CATALOG_TABLE    all                name of the catalog table
    ODRADEK_ROWS_TABLE       tables, trigger-dispatcher, maintenance   name of the table of rows
    ODRADEK_BUCKET           all                name of the bucket; "bucket,directory bucket" has the WAL in the second
    ODRADEK_FUNCTION_URLS    coordinator        "produce=https://...,fetch=https://...,admin=https://..."
    ODRADEK_REGISTRY_URL     coordinator        URL of the schema registry
    ODRADEK_QUEUE_URL        maintenance        the queue whose messages invoke the maintainer
    ODRADEK_TRIGGERS_URL     coordinator        URL of the triggers function
    ODRADEK_TABLES_URL       coordinator        URL of the tables function
    ODRADEK_BOOTSTRAP_URL    trigger-dispatcher URL of the coordinator, for events
    ODRADEK_TABLE_CATALOG    maintenance, maintainer   the setting table_catalog, if the stage leaves it to the stack
    ODRADEK_WAKE_QUEUE_URL   all but fetch, registry   the queue whose messages invoke the dispatcher of triggers
    ODRADEK_ENDPOINT_URL     tests              endpoint of S3, DynamoDB and SQS, if not AWS
    AWS_REGION               all                set by Lambda
    ODRADEK_<SETTING>        all                settings.Settings.from_env

ODRADEK_FUNCTION_URLS does not contain the coordinator itself: a function's URL cannot be a variable of that function
(the template would refer to itself), so it is taken from the host name of the discovery request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odradek.errors import ErrorCode, KafkaError
from odradek.ports.meter import Meter
from odradek.protocol.api import FunctionName

if TYPE_CHECKING:
    from odradek.adapters.aws import AwsStore

LOG_TABLE = "ODRADEK_LOG_TABLE"
GROUPS_TABLE = "ODRADEK_GROUPS_TABLE"
CATALOG_TABLE = "ODRADEK_CATALOG_TABLE"
ROWS_TABLE = "ODRADEK_ROWS_TABLE"
BUCKET = "ODRADEK_BUCKET"
FUNCTION_URLS = "ODRADEK_FUNCTION_URLS"
REGISTRY_URL = "ODRADEK_REGISTRY_URL"
QUEUE_URL = "ODRADEK_QUEUE_URL"
TRIGGERS_URL = "ODRADEK_TRIGGERS_URL"
TABLES_URL = "ODRADEK_TABLES_URL"
WAKE_QUEUE_URL = "ODRADEK_WAKE_QUEUE_URL"
BOOTSTRAP_URL = "ODRADEK_BOOTSTRAP_URL"
TABLE_CATALOG = "ODRADEK_TABLE_CATALOG"
ENDPOINT_URL = "ODRADEK_ENDPOINT_URL"
REGION = "AWS_REGION"

REQUIRED = (LOG_TABLE, GROUPS_TABLE, CATALOG_TABLE, BUCKET, REGION)

MAINTENANCE = "maintenance"  # plans, called by a schedule
MAINTAINER = "maintainer"  # runs the planned tasks, called by the queue
REGISTRY = "registry"  # the schema registry; it owns none of Kafka's APIs
TRIGGERS = "triggers"  # creates and describes triggers; it owns none of them, either
TABLES = "tables"  # answers questions about served tables
TRIGGER_DISPATCHER = "trigger-dispatcher"  # calls the triggers' functions, called by their queue

# Handler strings as Lambda takes them, by function.
HANDLERS: dict[str, str] = {
    **{name.value: f"lambdas.{name.value}.handler.handler" for name in FunctionName},
    MAINTENANCE: f"lambdas.{MAINTENANCE}.handler.handler",
    MAINTAINER: f"lambdas.{MAINTAINER}.handler.handler",
    REGISTRY: f"lambdas.{REGISTRY}.handler.handler",
    TABLES: f"lambdas.{TABLES}.handler.handler",
    TRIGGERS: f"lambdas.{TRIGGERS}.handler.handler",
    TRIGGER_DISPATCHER: "lambdas.trigger_dispatcher.handler.handler",
}


@dataclass(frozen=True, slots=True)
class Environment:
    """The names of the store and of the other functions."""

    region: str
    log_table: str
    groups_table: str
    catalog_table: str
    bucket: str
    endpoint_url: str | None  # None: AWS
    function_urls: Mapping[FunctionName, str]  # empty except in the coordinator
    registry_url: str | None = None  # known to the coordinator
    queue_url: str | None = None  # known to maintenance; None: it runs its tasks itself
    triggers_url: str | None = None  # known to the coordinator
    tables_url: str | None = None  # known to the coordinator
    rows_table: str | None = None  # known to what serves tables, and what maintains them
    bootstrap_url: str | None = None  # known to the dispatcher of triggers
    wake_queue_url: str | None = None  # known to what appends; None: nothing wakes triggers but the sweep

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Environment:
        """Read the variables. Raises KafkaError(INVALID_CONFIG) that names every missing one."""
        missing = [name for name in REQUIRED if not environ.get(name)]
        if missing:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"the function lacks {', '.join(missing)}: set them as `cdk deploy` does (functions/environment.py)",
            )
        return cls(
            region=environ[REGION],
            log_table=environ[LOG_TABLE],
            groups_table=environ[GROUPS_TABLE],
            catalog_table=environ[CATALOG_TABLE],
            bucket=environ[BUCKET],
            endpoint_url=environ.get(ENDPOINT_URL) or None,
            function_urls=parse_function_urls(environ.get(FUNCTION_URLS, "")),
            registry_url=environ.get(REGISTRY_URL) or None,
            queue_url=environ.get(QUEUE_URL) or None,
            triggers_url=environ.get(TRIGGERS_URL) or None,
            tables_url=environ.get(TABLES_URL) or None,
            rows_table=environ.get(ROWS_TABLE) or None,
            bootstrap_url=environ.get(BOOTSTRAP_URL) or None,
            wake_queue_url=environ.get(WAKE_QUEUE_URL) or None,
        )

    def open_store(self, meter: Meter) -> AwsStore:
        """Return the store on AWS that the environment names; makes no call yet."""
        # Imported here, since infra and the embedded service only need names from this module.
        from odradek.adapters.aws import open_aws

        return open_aws(
            region=self.region,
            log_table=self.log_table,
            groups_table=self.groups_table,
            catalog_table=self.catalog_table,
            bucket=self.bucket,
            rows_table=self.rows_table,
            endpoint_url=self.endpoint_url,
            meter=meter,
            direct=True,
        )


def format_function_urls(urls: Mapping[FunctionName, str]) -> str:
    """Return the value of ODRADEK_FUNCTION_URLS; plain joining, so that a template's tokens survive it."""
    return ",".join(f"{name.value}={url}" for name, url in urls.items())


def parse_function_urls(text: str) -> dict[FunctionName, str]:
    """Parse the output of `format_function_urls`. Raises KafkaError(INVALID_CONFIG)."""
    urls: dict[FunctionName, str] = {}
    for pair in filter(None, text.split(",")):
        name, separator, url = pair.partition("=")
        if not separator or name not in set(FunctionName) or "://" not in url:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"{FUNCTION_URLS} must be `function=url,...` with known functions: {pair!r}"
            )
        urls[FunctionName(name)] = url
    return urls
