"""DynamoDB's JSON protocol: one POST a call, the operation in a header, the parameters as they are.

    x-amz-target: DynamoDB_20120810.UpdateItem        content-type: application/x-amz-json-1.0
    {"TableName": ..., "Key": {"pk": {"S": "t"}}}     bytes are base64: {"B": "AAE="}

    400 {"__type": "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException", "message": ..., "Item": ...}

A response has the CRC-32 of its body. Source: DynamoDB developer guide, "DynamoDB low-level API".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, Final
from zlib import crc32

import pybase64
from botocore.exceptions import ClientError, ResponseStreamingError

from odradek.adapters.aws.direct.connections import Connections
from odradek.adapters.aws.direct.exchange import Answer
from odradek.adapters.aws.direct.signature import Signer
from odradek.ports.clock import Clock

_TARGET: Final = "DynamoDB_20120810"


class DirectDynamoDb:
    """The calls of botocore's client that the adapters make, with its parameters, results and exceptions.

    Args:
        connections: to DynamoDB.
        signer: of the service "dynamodb".
        clock: dates the signatures.
        heed: called with the `Date` of every response.
    """

    def __init__(
        self, connections: Connections, signer: Signer, clock: Clock, heed: Callable[[str | None], None]
    ) -> None:
        self._connections = connections
        self._signer = signer
        self._clock = clock
        self._heed = heed

    def get_item(self, **parameters: Any) -> dict[str, Any]:
        return self._call("GetItem", parameters)

    def batch_get_item(self, **parameters: Any) -> dict[str, Any]:
        return self._call("BatchGetItem", parameters)

    def query(self, **parameters: Any) -> dict[str, Any]:
        return self._call("Query", parameters)

    def update_item(self, **parameters: Any) -> dict[str, Any]:
        return self._call("UpdateItem", parameters)

    def put_item(self, **parameters: Any) -> dict[str, Any]:
        return self._call("PutItem", parameters)

    def delete_item(self, **parameters: Any) -> dict[str, Any]:
        return self._call("DeleteItem", parameters)

    def transact_write_items(self, **parameters: Any) -> dict[str, Any]:
        return self._call("TransactWriteItems", parameters)

    def transact_get_items(self, **parameters: Any) -> dict[str, Any]:
        return self._call("TransactGetItems", parameters)

    def close(self) -> None:
        self._connections.close()

    def _call(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        body = json.dumps(parameters, default=_encoded, separators=(",", ":")).encode()
        headers = {
            "host": self._connections.host_header,
            "content-type": "application/x-amz-json-1.0",
            "x-amz-target": f"{_TARGET}.{operation}",
        }
        signed = self._signer.signed("POST", "/", headers, hashlib.sha256(body).hexdigest(), self._clock.now_ms())
        response = self._connections.request("POST", "/", signed, body)
        self._heed(response.headers.get("date"))
        if (checksum := response.headers.get("x-amz-crc32")) and int(checksum) != crc32(response.body):
            raise ResponseStreamingError(error=f"the response to {operation} does not have its CRC-32")
        if response.status >= 300:
            raise _error(response, operation)
        try:
            parsed: dict[str, Any] = json.loads(response.body, object_hook=_decoded)
        except ValueError as error:  # a proxy's page, say
            raise ResponseStreamingError(error=f"the response to {operation} is not JSON") from error
        return parsed


def _encoded(value: Any) -> str:
    """Return what JSON has in place of bytes."""
    if isinstance(value, bytes):
        encoded: str = pybase64.b64encode_as_string(value)
        return encoded
    raise TypeError(f"DynamoDB has no {type(value).__name__}")


def _decoded(parsed: dict[str, Any]) -> dict[str, Any]:
    """Return the object; with bytes if it is a binary attribute value."""
    if len(parsed) == 1 and isinstance(value := parsed.get("B"), str):
        return {"B": pybase64.b64decode(value, validate=True)}
    return parsed


def _error(refusal: Answer, operation: str) -> ClientError:
    """Return the exception of a refusal. A proxy's, which is no JSON, has its status as code."""
    try:
        parsed = json.loads(refusal.body, object_hook=_decoded)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        parsed = {}
    code = str(parsed.pop("__type", "") or refusal.headers.get("x-amzn-errortype") or refusal.status)
    message = parsed.pop("message", None) or parsed.pop("Message", "")
    response: Any = {
        **parsed,  # such as the item that did not meet the condition
        "Error": {"Code": code.rpartition("#")[2].partition(":")[0], "Message": str(message)},
        "ResponseMetadata": {"HTTPStatusCode": refusal.status},
    }
    return ClientError(response, operation)
