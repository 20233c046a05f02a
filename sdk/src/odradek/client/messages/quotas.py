"""Client quotas as kio messages: DescribeClientQuotas 1, AlterClientQuotas 1 (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping

from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kio.schema.alter_client_quotas.v1.response import AlterClientQuotasResponse
from kio.schema.describe_client_quotas.v1.request import DescribeClientQuotasRequest
from kio.schema.describe_client_quotas.v1.response import DescribeClientQuotasResponse
from kio.static.primitive import f64

from odradek.model.quota import DEFAULT, ClientQuotaSet, QuotaEntity

__all__ = [
    "AlterClientQuotasResponse",
    "DescribeClientQuotasResponse",
    "alter_quotas_request",
    "describe_quotas_request",
    "quota_set",
]

_KINDS = ("user", "client-id", "ip")  # in the order of QuotaEntity


def describe_quotas_request() -> DescribeClientQuotasRequest:
    """Describe the quotas of everything."""
    return DescribeClientQuotasRequest(components=(), strict=False)


def alter_quotas_request(entity: QuotaEntity, values: Mapping[str, float | None]) -> AlterClientQuotasRequest:
    """Set quotas of one entity, or remove them (None)."""
    parts = tuple(
        EntityData(entity_type=entity_type, entity_name=name or None)
        for entity_type, name in zip(_KINDS, entity, strict=True)
        if name is not None
    )
    ops = tuple(OpData(key=name, value=f64(float(value or 0)), remove=value is None) for name, value in values.items())
    return AlterClientQuotasRequest(entries=(EntryData(entity=parts, ops=ops),), validate_only=False)


def quota_set(response: DescribeClientQuotasResponse) -> ClientQuotaSet:
    """Return the quotas of a response by entity."""
    values_by_entity = {}
    for entry in response.entries or ():
        names = {part.entity_type: part.entity_name or DEFAULT for part in entry.entity}
        values_by_entity[QuotaEntity(*(names.get(entity_type) for entity_type in _KINDS))] = {
            value.key: value.value for value in entry.values
        }
    return values_by_entity
