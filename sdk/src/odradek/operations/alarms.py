"""Alarms of a deployment, as CloudWatch has them. Needs `cloudwatch:DescribeAlarms`; the call blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from odradek.errors import ErrorCode, KafkaError
from odradek.extras import extra


@dataclass(frozen=True, slots=True)
class Alarm:
    """An alarm."""

    name: str  # without the deployment's name
    state: str  # OK | ALARM | INSUFFICIENT_DATA
    since_ms: int
    reason: str
    description: str  # where the documentation says what to do


_ORDER = ("ALARM", "INSUFFICIENT_DATA", "OK")


def read_alarms(prefix: str, region: str = "", client: Any = None) -> list[Alarm]:
    """Return the alarms whose names begin with a prefix; those that ring come first.

    Args:
        prefix: of a deployment: "odradek-prod-".
        client: of CloudWatch; None makes one with the caller's AWS credentials.

    Raises:
        KafkaError: CLUSTER_AUTHORIZATION_FAILED, NETWORK_EXCEPTION.
    """
    with extra("aws"):
        import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        cloudwatch = client or boto3.client("cloudwatch", region_name=region or None)
        pages = cloudwatch.get_paginator("describe_alarms").paginate(
            AlarmNamePrefix=prefix, AlarmTypes=["MetricAlarm", "CompositeAlarm"]
        )
        found = [
            Alarm(
                each["AlarmName"].removeprefix(prefix),
                each["StateValue"],
                round(each["StateUpdatedTimestamp"].timestamp() * 1000),
                each.get("StateReason", ""),
                each.get("AlarmDescription", ""),
            )
            for page in pages
            for each in (*page.get("MetricAlarms", ()), *page.get("CompositeAlarms", ()))
        ]
    except ClientError as error:
        reason = error.response.get("Error", {}).get("Message", str(error))
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"CloudWatch refused the alarms: {reason}") from None
    except BotoCoreError as error:
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"CloudWatch cannot be asked for alarms: {error}") from None
    return sorted(found, key=lambda each: (_ORDER.index(each.state) if each.state in _ORDER else 9, each.name))
