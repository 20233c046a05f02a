"""Records that are given up, at SQS, SNS and S3 of moto: Lambda's document; held back where the place is missing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import botocore.session
import pytest
from odradek.adapters.aws.outside import AwsServices
from odradek.ports.outside import OutsideFailed

from tests.support.engine import batch, produce
from tests.support.services.dispatched import Dispatched
from tests.support.stores.aws import CREDENTIALS, REGION, create_bucket, create_queue, moto_server, receive

FUNCTION = f"arn:aws:lambda:{REGION}:123456789012:function:orders"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as environ, moto_server() as url:
        for name, value in CREDENTIALS.items():
            environ.setenv(name, value)
        yield url


class Raising(AwsServices):
    """AWS, but for the function, which raises."""

    async def invoke(self, function_arn: str, payload: bytes, timeout_s: float) -> bytes:
        raise OutsideFailed("ValueError: bad")


async def given_up(endpoint: str, on_failure: str) -> Dispatched:
    dispatched = Dispatched(lambda: Raising(region=REGION, endpoint_url=endpoint))
    await dispatched.engine.topics.create("orders", 1)
    await dispatched.create(
        function=FUNCTION, starting_position="TRIM_HORIZON", retry_attempts=0, on_failure=on_failure
    )
    await produce(dispatched.engine, "orders", 0, batch([b"a", b"b"]))
    await dispatched.work_off()
    return dispatched


def client(endpoint: str, service: str) -> Any:
    return botocore.session.get_session().create_client(service, region_name=REGION, endpoint_url=endpoint)


def check_document(document: dict[str, Any]) -> None:
    """The fields that Lambda's mapping for MSK writes."""
    assert document["version"] == "1.0"
    assert document["requestContext"]["functionArn"] == FUNCTION
    assert document["requestContext"]["condition"] == "RetryAttemptsExhausted"
    assert document["requestContext"]["approximateInvokeCount"] == 1
    assert document["responseContext"]["errorMessage"] == "ValueError: bad"
    batch_info = document["KafkaBatchInfo"]
    assert (batch_info["topicPartition"], batch_info["batchSize"]) == ("orders-0", 2)
    assert (batch_info["firstOffset"], batch_info["lastOffset"]) == (0, 1)


async def test_a_queue_gets_the_document(endpoint: str) -> None:
    queue = create_queue(endpoint, "failed")
    dispatched = await given_up(endpoint, f"sqs:{queue}")
    [message] = receive(endpoint, queue)
    document = json.loads(message["Body"])
    check_document(document)
    assert "payload" not in document
    assert (await dispatched.status()).lag == 0


async def test_a_topic_of_sns_gets_the_document(endpoint: str) -> None:
    queue = create_queue(endpoint, "subscribed")
    sns, sqs = client(endpoint, "sns"), client(endpoint, "sqs")
    topic_arn = sns.create_topic(Name="failed")["TopicArn"]
    attributes = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]
    sns.subscribe(TopicArn=topic_arn, Protocol="sqs", Endpoint=attributes["QueueArn"])
    await given_up(endpoint, f"sns:{topic_arn}")
    [message] = receive(endpoint, queue)
    check_document(json.loads(json.loads(message["Body"])["Message"]))


async def test_a_bucket_gets_the_document_with_the_event(endpoint: str) -> None:
    create_bucket(endpoint, "failed-orders")
    await given_up(endpoint, "s3:failed-orders/triggers")
    s3 = client(endpoint, "s3")
    [kept] = s3.list_objects_v2(Bucket="failed-orders")["Contents"]
    assert kept["Key"].startswith("triggers/aws/lambda/t/orders-0/2023/")
    document = json.loads(s3.get_object(Bucket="failed-orders", Key=kept["Key"])["Body"].read())
    check_document(document)
    assert [record["offset"] for record in document["payload"]["records"]["orders-0"]] == [0, 1]


@pytest.mark.parametrize(
    "address",
    [
        f"sqs:https://sqs.{REGION}.amazonaws.com/123456789012/none",
        f"sns:arn:aws:sns:{REGION}:123456789012:none",
        "s3:none",
    ],
)
async def test_a_place_that_is_not_there_holds_the_records_back(endpoint: str, address: str) -> None:
    dispatched = await given_up(endpoint, address)
    status = await dispatched.status()
    assert (status.lag, status.given_up) == (2, 0)
    assert f"on_failure {address}" in status.error
    assert status.retry_ms > dispatched.clock.now_ms()
