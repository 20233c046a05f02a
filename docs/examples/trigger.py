"""A function that is called with each order: on AWS a Lambda function, here one of this process.

The handler is written with Powertools, as for MSK: `pip install 'odradek[local]' aws-lambda-powertools`.
"""

from __future__ import annotations

import threading
from typing import Any

import odradek
from odradek.extras import program_needs

with program_needs("odradek[local]", "aws-lambda-powertools"):
    from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
    from aws_lambda_powertools.utilities.data_classes.kafka_event import KafkaEventRecord

processor = BatchProcessor(event_type=EventType.Kafka)
served = threading.Semaphore(0)


def serve(record: KafkaEventRecord) -> None:
    print(f"order {record.json_value['id']} of {record.decoded_key.decode() if record.decoded_key else '?'}")
    served.release()


def handler(event: dict[str, Any], context: Any) -> Any:
    return process_partial_response(event=event, record_handler=serve, processor=processor, context=context)


def main() -> None:
    with (
        odradek.local(trigger_handlers={"shop:handler": handler}) as service,
        odradek.Admin(**service.client_config) as admin,
        odradek.Producer(**service.client_config) as producer,
    ):
        admin.create_topics([odradek.NewTopic("orders", 3)])
        admin.create_trigger("new-orders", "orders", "shop:handler", filters=['{"value": {"paid": [true]}}'])
        for number, paid in enumerate((b"false", b"true", b"true")):
            producer.send("orders", b'{"id": %d, "paid": %s}' % (number, paid), key=b"ada")
        for _ in range(2):
            served.acquire()


if __name__ == "__main__":
    main()
