"""Triggers as functions: their REST API behind a function URL, and the dispatcher, which the queue invokes.

triggers              function-URL events to `triggers.api` and back
trigger-dispatcher    events of SQS: wake messages; its response names those to deliver again
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Mapping
from typing import Any

from odradek.engine.marks import decode_wake
from odradek.errors import FormatError
from odradek.functions.context import LambdaContext
from odradek.functions.environment import TRIGGER_DISPATCHER, TRIGGERS
from odradek.functions.event import Event, Response, json_response
from odradek.functions.invoked import ANSWER_MARGIN_MS, WORK_MARGIN_MS, Instruments, InvokedFunction, remaining_s
from odradek.functions.registry import parse_request
from odradek.functions.telemetry import Invocation, Reason, event_line, fault_line
from odradek.triggers.api import Request, TriggersApi
from odradek.triggers.dispatcher import TriggerDispatcher

_CALLING = 0.8  # of the time may new calls begin; the rest is for those under way


class TriggersHandler(InvokedFunction):
    """The handler of the triggers function.

    Args:
        api: answers the requests.
        instruments: measure the invocations.
    """

    def __init__(self, api: TriggersApi, instruments: Instruments) -> None:
        super().__init__(TRIGGERS, instruments)
        self._api = api

    async def work(self, event: Event, context: LambdaContext, invocation: Invocation) -> Response:
        """Answer one event; never raises for a bad one."""
        invocation.api = "TRIGGERS"
        parsed = parse_request(event)
        if isinstance(parsed, str):
            invocation.errors = 1
            return json_response(400, {"error": "INVALID_REQUEST", "message": parsed})
        invocation.principal, invocation.bytes_in = parsed.principal, len(parsed.body)
        request = Request(parsed.method, parsed.path, parsed.body, parsed.principal, parsed.client_host)
        try:
            async with asyncio.timeout(remaining_s(context, ANSWER_MARGIN_MS)):
                status, document = await self._api.answer(request)
        except TimeoutError:
            status, document = 504, {"error": "REQUEST_TIMED_OUT", "message": "the store did not answer: try again"}
        if status >= 400:
            invocation.errors, invocation.error = 1, str(document["error"])
        response = json_response(status, document)
        invocation.status, invocation.bytes_out = status, len(response["body"])
        return response

    async def handle(self, event: Event, context: LambdaContext) -> dict[str, Any]:
        """Run one invocation. Raises KafkaError for a request of CloudFormation, whose resource then fails."""
        return await (self._provide(event) if "RequestType" in event else super().handle(event, context))

    async def _provide(self, event: Event) -> dict[str, Any]:
        """Create, change or delete a trigger for CloudFormation (CDK's provider framework).

        Only roles with lambda:InvokeFunction on this function send such events: ACLs do not apply to them.

        Raises KafkaError: the resource fails with its message.
        """
        name = str(event.get("PhysicalResourceId", ""))
        if event["RequestType"] == "Delete":
            await self._api.delete_if_there(name)
            return {"PhysicalResourceId": name}
        trigger = await self._api.replace(event["ResourceProperties"]["Trigger"], name)
        return {"PhysicalResourceId": trigger.name, "Data": {"Group": trigger.group}}

    def answer_to_fault(self, request_id: str) -> Response:
        message = f"unexpected error: see the function's log, request id {request_id}"
        return json_response(500, {"error": "UNKNOWN_SERVER_ERROR", "message": message})


class TriggerDispatcherHandler(InvokedFunction):
    """The handler of SQS events with wake messages.

    Args:
        dispatcher: works them off.
        instruments: measure the invocations.
    """

    def __init__(self, dispatcher: TriggerDispatcher, instruments: Instruments) -> None:
        super().__init__(TRIGGER_DISPATCHER, instruments)
        self._dispatcher = dispatcher

    async def work(self, event: Event, context: LambdaContext, invocation: Invocation) -> dict[str, Any]:
        """Work the messages off; return `{"batchItemFailures": [{"itemIdentifier": message id}, ...]}`."""
        records = event.get("Records", ())
        left = {str(record["messageId"]) for record in records}
        failures: list[str] = []
        available_s = remaining_s(context, WORK_MARGIN_MS)
        deadline_s = self._instruments.clock.monotonic() + _CALLING * available_s
        try:
            async with asyncio.timeout(available_s):
                await asyncio.gather(*(self._do(record, deadline_s, left, failures) for record in records))
        except TimeoutError:
            failures.append("the time was over during a call: raise the function's time-out or lower timeout_s")
        if failures:
            self.call_attention(Reason.TRIGGER_FAILURES, failures=failures)
        done = {"messages": len(records), "left": len(left), "failures": failures}
        self._instruments.write_line(event_line("triggers", {"request_id": context.aws_request_id, **done}))
        return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in sorted(left)]}

    async def _do(self, record: Mapping[str, Any], deadline_s: float, left: set[str], failures: list[str]) -> None:
        message_id = str(record["messageId"])
        try:
            await self._dispatcher.handle(decode_wake(str(record["body"])), deadline_s)
        except FormatError as error:
            failures.append(f"message {message_id}: {error}")
        except Exception as error:  # this message must not cause the others to be repeated
            failures.append(f"message {message_id}: {type(error).__name__}: {error}")
            self._instruments.write_line(fault_line(message_id, TRIGGER_DISPATCHER, traceback.format_exc()))
        else:
            left.discard(message_id)
