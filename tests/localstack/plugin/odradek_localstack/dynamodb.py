"""DynamoDB by moto, one operation at a time.

moto's transact_write_items copies whole tables and puts the copies back when a condition fails, which wipes what other
threads wrote meanwhile. One lock around every operation makes it right, and still quick enough.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from localstack.aws.api.dynamodb import DynamodbApi
from localstack.aws.api.dynamodbstreams import DynamodbstreamsApi
from localstack.services.moto import MotoFallbackDispatcher
from localstack.services.plugins import Service, aws_provider

_lock = threading.Lock()


def _one_at_a_time(operation: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        with _lock:
            return operation(*args, **kwargs)

    return run


def _dispatch_table(provider: Any) -> dict[str, Callable[..., Any]]:
    return {name: _one_at_a_time(operation) for name, operation in MotoFallbackDispatcher(provider).items()}


@aws_provider(api="dynamodb", name="moto")
def dynamodb() -> Service:
    return Service.for_provider(DynamodbApi(), dispatch_table_factory=_dispatch_table)


@aws_provider(api="dynamodbstreams", name="moto")
def dynamodbstreams() -> Service:
    return Service.for_provider(DynamodbstreamsApi(), dispatch_table_factory=_dispatch_table)
