"""connect: called by a schedule, by triggers and by itself, runs the connectors for a shift.

It is a client of the other functions and has no rights to the store. Its image (infra/connect_image.py) has the
libraries of all connectors.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import boto3
from odradek.connect.runtime.function import ConnectFunction
from odradek.connect.runtime.worker import collect_rarely
from odradek.functions.logs import log_as_json
from odradek.functions.telemetry import write_stdout

_lambda: Any = boto3.client("lambda")


def _call_again(event: Mapping[str, Any]) -> None:
    _lambda.invoke(
        FunctionName=os.environ["AWS_LAMBDA_FUNCTION_NAME"], InvocationType="Event", Payload=json.dumps(event).encode()
    )


log_as_json(write_stdout)
collect_rarely()
_function = ConnectFunction(os.environ, _call_again)


def handler(event: object, context: Any) -> dict[str, str]:
    """Work until there is nothing to do, or nearly until the function's time is over."""
    return _function.answer(event, int(context.get_remaining_time_in_millis()), context.invoked_function_arn)
