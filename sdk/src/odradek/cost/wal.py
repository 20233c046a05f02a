"""The WAL in the main bucket, or in a directory bucket on S3 Express One Zone (`wal_zone_id` of a stage). Pure.

standard    three zones, tens of milliseconds, a price for each request
express     one zone until a merge (docs/OPERATIONS.md), single milliseconds, a fourth of a PUT's price and a
            thirteenth of a GET's, and a price for each GB that is uploaded and read
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from odradek.cost.prices import GIB, US_EAST_1, PriceList


class WalClass(StrEnum):
    """The storage class of uploads."""

    STANDARD = "standard"
    EXPRESS = "express"


@dataclass(frozen=True, slots=True)
class WalTimes:
    """Mean seconds of a call."""

    put_s: float
    get_s: float


# Around the published medians: 65 and 30 ms; AWS promises single-digit milliseconds of S3 Express One Zone.
WAL_TIMES: Final[Mapping[WalClass, WalTimes]] = MappingProxyType(
    {WalClass.STANDARD: WalTimes(0.073, 0.036), WalClass.EXPRESS: WalTimes(0.008, 0.007)}
)


def wal_storage(bytes_per_s: float, kept_s: float, prices: PriceList = US_EAST_1) -> float:
    """Return the dollars a month of what waits on S3 Express One Zone for its merge and for the sweep after it."""
    return bytes_per_s * kept_s / GIB * prices.express_gb_month
