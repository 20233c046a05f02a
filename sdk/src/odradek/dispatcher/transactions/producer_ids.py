"""InitProducerId: the id of an idempotent producer; for a transactional one also an epoch that fences the others."""

from __future__ import annotations

from odradek.dispatcher.answer import to_ms
from odradek.dispatcher.context import Answer, Call
from odradek.errors import ErrorCode, KafkaError
from odradek.model.acl import CLUSTER, AclOperation, ResourceType

_FENCED_FROM = 4  # from this version on clients know PRODUCER_FENCED (KIP-588)


async def handle_init_producer_id(call: Call) -> Answer:
    message = call.message
    if message.transactional_id is None and not call.access.may_any(AclOperation.WRITE, ResourceType.TOPIC):
        call.access.require(AclOperation.IDEMPOTENT_WRITE, *CLUSTER)
    kept = {
        "producer_id": getattr(message, "producer_id", -1),
        "producer_epoch": getattr(message, "producer_epoch", -1),
    }
    try:
        if message.transactional_id is None:
            given = await call.engine.producer_ids.init(**kept)
        else:
            timeout_ms = to_ms(message.transaction_timeout)
            given = await call.engine.transactions.init(message.transactional_id, timeout_ms, **kept)
    except KafkaError as error:
        if error.code is ErrorCode.PRODUCER_FENCED and call.api_version < _FENCED_FROM:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, error.message) from error
        raise
    return {"producer_id": given.producer_id, "producer_epoch": given.producer_epoch}


def refuse_init_producer_id(call: Call, code: ErrorCode, message: str) -> Answer:
    return {"error_code": code, "producer_id": -1, "producer_epoch": -1}
