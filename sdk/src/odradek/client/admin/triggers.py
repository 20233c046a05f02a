"""Triggers, for the admin client: their function's REST API, which is reached over HTTPS only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from odradek.client.admin.change import NotThere
from odradek.client.config import AdminConfig
from odradek.client.connection import Connection
from odradek.client.transport.base import RequestFailed
from odradek.errors import ErrorCode, KafkaError
from odradek.model.trigger import Trigger, TriggerStatus, status_of, trigger_of


class TriggerAdmin:
    """The calls about triggers of `Admin`."""

    config: AdminConfig
    _connection: Connection

    async def create_trigger(self, name: str, topic: str, function: str, **options: Any) -> Trigger:
        """Create a trigger: the function is called with the topic's new records.

        Args:
            function: the ARN of a Lambda function, a URL, or `module:handler` on the embedded service.
            options: of odradek.model.trigger.Trigger, by name: batch_size, filters, on_failure ...

        Returns:
            The trigger; if it calls a URL, with the secret that signs the calls, which is shown only here.

        Raises:
            KafkaError: INVALID_REQUEST, DUPLICATE_RESOURCE, UNKNOWN_TOPIC_OR_PARTITION,
                CLUSTER_AUTHORIZATION_FAILED ...
        """
        document = {"name": name, "topic": topic, "function": function, **options}
        if "filters" in document:
            document["filters"] = list(document["filters"])
        trigger_of(document)  # what is misspelt is told here
        return trigger_of(await self._triggers("POST", "", document))

    async def list_triggers(self) -> list[Trigger]:
        """Return all triggers that the caller may describe, by name."""
        response = await self._triggers("GET", "")
        return [trigger_of(entry) for entry in response["triggers"]]

    async def describe_trigger(self, name: str) -> TriggerStatus:
        """Return a trigger with lag, calls and last error of each partition.

        Raises:
            KafkaError: RESOURCE_NOT_FOUND ...
        """
        return status_of(await self._triggers("GET", _named(name)))

    async def pause_trigger(self, name: str) -> Trigger:
        """Stop calling the function; calls that are under way end."""
        return trigger_of(await self._triggers("POST", f"{_named(name)}/pause"))

    async def resume_trigger(self, name: str) -> Trigger:
        """Call the function again, with the record after the last one that it was called with."""
        return trigger_of(await self._triggers("POST", f"{_named(name)}/resume"))

    async def reset_trigger(self, name: str, position: str, timestamp_ms: int = 0) -> dict[int, int]:
        """Set the offsets of a paused trigger, and return them by partition.

        Args:
            position: LATEST, TRIM_HORIZON, or AT_TIMESTAMP.
            timestamp_ms: of AT_TIMESTAMP.
        """
        response = await self._triggers(
            "POST", f"{_named(name)}/reset", {"position": position, "timestamp_ms": timestamp_ms}
        )
        return {int(number): offset for number, offset in response["offsets"].items()}

    async def delete_trigger(self, name: str) -> None:
        """Delete a trigger and its offsets."""
        await self._triggers("DELETE", _named(name))

    async def _triggers(self, method: str, path: str, document: Mapping[str, Any] | None = None) -> dict[str, Any]:
        body = b"" if document is None else json.dumps(document).encode()
        quoted = "/".join(quote(part, safe="") for part in path.split("/"))

        async def attempt(timeout_s: float) -> dict[str, Any]:
            call = getattr(self._connection.transport, "call_function", None)
            if call is None:
                raise RequestFailed(
                    ErrorCode.UNSUPPORTED_VERSION,
                    "triggers are managed over HTTPS: connect to the coordinator's URL",
                    may_have_applied=False,
                    retryable=False,
                )
            try:
                response: dict[str, Any] = await call("triggers", method, f"/{quoted}", body, timeout_s)
            except KafkaError as error:
                if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise NotThere(error.code, error.message) from None
                raise
            return response

        return await self._connection.retrying(attempt, "a call about triggers")


def _named(name: str) -> str:
    """Return the name of one trigger; the path of none is that of their list. Raises KafkaError."""
    if not name:
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, "there is no trigger without a name")
    return name
