"""Shared by connectors to AWS: credentials, the client of a service, and its errors."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from odradek.connect.config import ConfigDef, Kind
from odradek.connect.errors import ConnectError, RetriableError
from odradek.extras import extra

AWS = (
    ConfigDef()
    .define("aws.region", Kind.STRING, None, "The region; by default that of the environment.",
            also=("s3.region", "kinesis.region", "sqs.region", "aws.dynamodb.region", "aws.lambda.region"))
    .define("aws.access.key.id", Kind.PASSWORD, None, "Key id; by default botocore's chain of credentials.")
    .define("aws.secret.access.key", Kind.PASSWORD, None, "The secret key.")
    .define("aws.endpoint.url", Kind.STRING, None, "Another address of the service, such as a local emulator's.",
            importance="LOW")
)  # fmt: skip

_MAKING = threading.Lock()
_RETRIABLE = frozenset(
    {
        *("Throttling", "ThrottlingException", "ThrottledException", "TooManyRequestsException", "SlowDown"),
        *("ProvisionedThroughputExceededException", "RequestLimitExceeded", "ServiceUnavailable", "InternalError"),
        *("InternalServerError", "InternalFailure", "RequestTimeout", "LimitExceededException", "InternalException"),
        *("EC2ThrottledException", "TransactionConflictException", "KMSThrottlingException"),
    }
)


@cache
def _session() -> Any:
    """Return the session of this process: it reads the descriptions of services, which takes half a second, once."""
    with extra("aws"):
        import boto3

    return boto3.Session()


def client(service: str, options: Mapping[str, Any]) -> Any:
    """Return boto3's client of a service. Raises MissingExtra."""
    with _MAKING:  # a session is not safe for several threads
        session = _session()
        from botocore.config import Config

        return session.client(
            service,
            region_name=options["aws.region"],
            aws_access_key_id=options["aws.access.key.id"],
            aws_secret_access_key=options["aws.secret.access.key"],
            endpoint_url=options["aws.endpoint.url"],
            config=Config(retries={"mode": "standard", "max_attempts": 5}),
        )


@contextmanager
def translated(failure: str) -> Iterator[None]:
    """Turn botocore's errors into RetriableError or ConnectError that says what was refused."""
    from botocore.exceptions import BotoCoreError, ClientError, ConnectionError, HTTPClientError

    try:
        yield
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        error_type = RetriableError if code in _RETRIABLE or status >= 500 else ConnectError
        raise error_type(f"{failure}: {error}") from error
    except (ConnectionError, HTTPClientError) as error:
        raise RetriableError(f"{failure}: {error}") from error
    except BotoCoreError as error:
        raise ConnectError(f"{failure}: {error}") from error
