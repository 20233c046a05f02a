"""The asynchronous clients. `odradek.Producer`, `Consumer` and `Admin` are synchronous faces of these."""

from __future__ import annotations

from odradek.client.admin import Admin
from odradek.client.consumer import Consumer
from odradek.client.producer import Producer
from odradek.client.rebalance import RebalanceListener
from odradek.client.share_consumer import ShareConsumer

__all__ = ["Admin", "Consumer", "Producer", "RebalanceListener", "ShareConsumer"]
