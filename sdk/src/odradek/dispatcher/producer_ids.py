"""InitProducerId: an id for an idempotent producer, an epoch for a transactional one."""

from __future__ import annotations

from odradek.dispatcher.answer import to_ms
from odradek.dispatcher.context import Answer, Call
from odradek.errors import ErrorCode, KafkaError


async def handle_init_producer_id(call: Call) -> Answer:
    message = call.message
    if message.transactional_id == "":
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a transactional id is not empty: leave it out or give it a name")
    given = await call.engine.producer_ids.init(
        message.transactional_id,
        transaction_timeout_ms=to_ms(message.transaction_timeout),
        producer_id=getattr(message, "producer_id", -1),
        producer_epoch=getattr(message, "producer_epoch", -1),
    )
    return {"producer_id": given.producer_id, "producer_epoch": given.producer_epoch}


def refuse_init_producer_id(call: Call, code: ErrorCode, message: str) -> Answer:
    return {"error_code": code, "producer_id": -1, "producer_epoch": -1}
