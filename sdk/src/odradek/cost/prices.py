"""Prices of metered usage in dollars, from a dated price list.

Prices are data with a date, a region and a source; check them against the source before quoting a result. Anything not
listed is free or not used: data transfer between these services within a region, DELETE requests, function URLs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from odradek.ports.meter import Usage

GIB: Final = 1024**3
GB_MONTH: Final = 1024**3  # AWS's storage "GB" is 2**30 bytes


@dataclass(frozen=True, slots=True)
class PriceList:
    """The prices of units, in US dollars."""

    date: str  # ISO, of the look-up
    region: str
    source: str
    per_million_table_write_units: float  # on demand, 1 KB
    per_million_table_read_units: float  # on demand, 4 KB, consistent
    table_write_capacity_hour: float  # provisioned, for each 1 KB a second
    table_read_capacity_hour: float  # provisioned, for each 4 KB a second, consistent
    per_thousand_object_put_requests: float  # PUT, LIST
    per_thousand_object_get_requests: float  # GET, HEAD
    per_thousand_express_put_requests: float  # S3 Express One Zone
    per_thousand_express_get_requests: float
    express_gb_written: float
    express_gb_read: float
    express_gb_month: float
    per_million_function_requests: float
    per_function_gb_second: float
    table_gb_month: float
    object_gb_month: float
    per_million_queue_requests: float  # standard queue; a batch of up to 10 messages (64 KB) is one
    logs_gb_ingested: float  # CloudWatch Logs, standard class
    logs_gb_month: float
    alarm_metric_month: float  # of each metric that an alarm evaluates
    composite_alarm_month: float
    dashboard_month: float
    custom_metric_month: float  # billed by the hour in which it has data
    per_million_scheduled_events: float
    task_vcpu_hour: float  # Fargate, Linux on x86
    task_gb_hour: float
    balancer_hour: float  # a network load balancer
    balancer_capacity_hour: float  # for each GB an hour through it, over TCP
    hosted_zone_month: float  # of names in a VPC, with Cloud Map's entries that ECS makes
    nat_hour: float  # a NAT gateway
    nat_gb: float  # through it
    internet_gb: float  # out of AWS, first 10 TB a month
    zone_gb: float  # between two zones, both sides billed


US_EAST_1: Final = PriceList(
    date="2026-11-20",
    region="us-east-1",
    source="AWS price pages: DynamoDB on demand and provisioned (Standard), S3 Standard and Express One Zone, Lambda "
    "arm64, "
    "SQS standard queues, CloudWatch, EventBridge, Fargate, Elastic Load Balancing, Route 53, VPC, EC2 data transfer",
    per_million_table_write_units=0.625,
    per_million_table_read_units=0.125,
    table_write_capacity_hour=0.00065,
    table_read_capacity_hour=0.00013,
    per_thousand_object_put_requests=0.005,
    per_thousand_object_get_requests=0.0004,
    per_thousand_express_put_requests=0.00113,
    per_thousand_express_get_requests=0.00003,
    express_gb_written=0.0032,
    express_gb_read=0.0006,
    express_gb_month=0.11,
    per_million_function_requests=0.20,
    per_function_gb_second=0.0000133334,
    table_gb_month=0.25,
    object_gb_month=0.023,
    per_million_queue_requests=0.40,
    logs_gb_ingested=0.50,
    logs_gb_month=0.03,
    alarm_metric_month=0.10,
    composite_alarm_month=0.50,
    dashboard_month=3.00,
    custom_metric_month=0.30,
    per_million_scheduled_events=1.00,
    task_vcpu_hour=0.04048,
    task_gb_hour=0.004445,
    balancer_hour=0.0225,
    balancer_capacity_hour=0.006,
    hosted_zone_month=0.50,
    nat_hour=0.045,
    nat_gb=0.045,
    internet_gb=0.09,
    zone_gb=0.02,
)


@dataclass(frozen=True, slots=True)
class CostReport:
    """Dollars of a usage, by component."""

    components: Mapping[str, float]
    prices: PriceList

    @property
    def total(self) -> float:
        return sum(self.components.values())

    def per_million_records(self, records: int) -> float:
        """Return dollars per million records; 0 without records."""
        return self.total * 1_000_000 / records if records else 0.0


def cost(usage: Usage, prices: PriceList = US_EAST_1) -> CostReport:
    """Return the cost of the usage, without storage."""
    return CostReport(
        {
            "table writes": usage.table_write_units * prices.per_million_table_write_units / 1e6,
            "table reads": usage.table_read_units * prices.per_million_table_read_units / 1e6,
            "object puts": usage.object_put_requests * prices.per_thousand_object_put_requests / 1e3,
            "object gets": usage.object_get_requests * prices.per_thousand_object_get_requests / 1e3,
            "express requests": usage.express_put_requests * prices.per_thousand_express_put_requests / 1e3
            + usage.express_get_requests * prices.per_thousand_express_get_requests / 1e3,
            "express data": usage.express_bytes_written / GIB * prices.express_gb_written
            + usage.express_bytes_read / GIB * prices.express_gb_read,
            "function requests": usage.function_requests * prices.per_million_function_requests / 1e6,
            "function time": usage.function_gb_seconds * prices.per_function_gb_second,
            "queue requests": usage.queue_requests * prices.per_million_queue_requests / 1e6,
        },
        prices,
    )


@dataclass(frozen=True, slots=True)
class PeerPrices:
    """The prices of other services, in US dollars; a month has 730 hours. "GB" is 2**30 bytes."""

    date: str
    region: str
    source: str
    kinesis_stream_hour: float  # on demand
    kinesis_gb_in: float
    kinesis_gb_out: float
    kinesis_gb_month_after_first_day: float
    msk_serverless_cluster_hour: float
    msk_serverless_partition_hour: float
    msk_serverless_gb_in: float
    msk_serverless_gb_out: float
    msk_serverless_gb_month: float
    msk_broker_hour: float  # kafka.m7g.large
    msk_gb_month: float
    kafka_broker_hour: float  # m7g.large, self-managed
    kafka_disk_gb_month: float  # gp3
    broker_bytes_per_s_max: int  # the intake of a broker of that size, replicas included
    zone_gb: float  # between two zones, both sides billed


PEERS_US_EAST_1: Final = PeerPrices(
    date="2026-11-20",
    region="us-east-1",
    source="AWS price pages: Kinesis Data Streams, MSK, EC2, EBS, data transfer; MSK's sizing guidance",
    kinesis_stream_hour=0.04,
    kinesis_gb_in=0.08,
    kinesis_gb_out=0.04,
    kinesis_gb_month_after_first_day=0.10,
    msk_serverless_cluster_hour=0.75,
    msk_serverless_partition_hour=0.0015,
    msk_serverless_gb_in=0.10,
    msk_serverless_gb_out=0.05,
    msk_serverless_gb_month=0.10,
    msk_broker_hour=0.204,
    msk_gb_month=0.10,
    kafka_broker_hour=0.0816,
    kafka_disk_gb_month=0.08,
    broker_bytes_per_s_max=60 * 1024 * 1024,
    zone_gb=US_EAST_1.zone_gb,
)
