"""A web service: orders come in by HTTP, and a background task keeps a view of them from the topic.

    python fastapi_service.py                        # or: uvicorn fastapi_service:app
    curl -d '{"customer": "ada", "pieces": 2}' -H 'Content-Type: application/json' http://127.0.0.1:8000/orders

Needs `odradek[local]`, fastapi and uvicorn.
One producer and one consumer live as long as the application; handlers await the outcome of their record, so that a
201 means that the order is durable. Set ODRADEK_BOOTSTRAP_SERVERS to use a running service instead of an embedded one.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import odradek
import odradek.aio
from odradek.extras import program_needs

with program_needs("odradek[local]", "fastapi", "uvicorn"):
    from fastapi import FastAPI, HTTPException, Request
    from pydantic import BaseModel


class Order(BaseModel):
    customer: str
    pieces: int


async def keep_view(view: Counter[str], **connection: str) -> None:
    """Fold all orders, from the first on, into pieces by customer."""
    async with odradek.aio.Consumer(**connection) as consumer:
        orders = odradek.TopicPartition("orders", 0)
        consumer.assign([orders])
        consumer.seek_to_beginning(orders)
        async for record in consumer:
            order = json.loads(record.value or b"{}")
            view[order["customer"]] += order["pieces"]


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        if address := os.environ.get("ODRADEK_BOOTSTRAP_SERVERS"):
            connection = {"bootstrap_servers": address}
        else:
            service = await asyncio.to_thread(odradek.local)
            stack.callback(service.stop)
            connection = service.client_config
        async with odradek.aio.Admin(**connection) as admin:
            if "orders" not in await admin.list_topics():
                await admin.create_topics([odradek.NewTopic("orders")])
        app.state.producer = await stack.enter_async_context(odradek.aio.Producer(**connection, linger_ms=2))
        app.state.view = Counter()
        task = asyncio.create_task(keep_view(app.state.view, **connection))
        stack.callback(task.cancel)
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=201)
async def create_order(order: Order, request: Request) -> dict[str, Any]:
    producer: odradek.aio.Producer = request.app.state.producer
    try:
        future = await producer.send("orders", order.model_dump_json().encode(), key=order.customer.encode())
        metadata = await future
    except odradek.KafkaError as error:
        raise HTTPException(503 if error.is_retryable else 400, detail=str(error)) from error
    return {"partition": metadata.partition, "offset": metadata.offset}


@app.get("/customers/{name}")
async def customer(name: str, request: Request) -> dict[str, Any]:
    return {"customer": name, "pieces": request.app.state.view[name]}


if __name__ == "__main__":
    with program_needs("odradek[local]", "fastapi", "uvicorn"):
        import uvicorn

    uvicorn.run(app)  # http://127.0.0.1:8000; Ctrl-C ends it
