"""Client quotas in Kafka's model (KIP-13, KIP-124, KIP-599, KIP-612, KIP-546): whom a quota is for, and its names.

producer_byte_rate, consumer_byte_rate    bytes a second
request_percentage                        percent of the time of the event loop that answers requests
controller_mutation_rate                  partitions created and deleted a second
connection_creation_rate                  connections a second, of an IP address
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"
CLIENT_QUOTAS = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE)
ADDRESS_QUOTAS = (CONNECTION_CREATION_RATE,)
WHOLE_QUOTAS = frozenset({PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, CONNECTION_CREATION_RATE})  # without fractions
DEFAULT = ""  # the user, client id or IP address that a quota without a name of its own is for


class QuotaEntity(NamedTuple):
    """Whom a quota is for: a user, a client id, both, or an IP address; None: it does not matter."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None


ClientQuotaSet = Mapping[QuotaEntity, Mapping[str, float]]
