"""The asynchronous clients. `odradek.Producer`, `Consumer` and `Admin` are synchronous faces of these."""

from __future__ import annotations

from odradek.client.admin.admin import Admin
from odradek.client.consumer.consumer import Consumer
from odradek.client.consumer.rebalance import RebalanceListener
from odradek.client.producer.producer import Producer
from odradek.client.share.consumer import ShareConsumer
from odradek.client.tables import AsyncTable as Table

__all__ = ["Admin", "Consumer", "Producer", "RebalanceListener", "ShareConsumer", "Table"]
