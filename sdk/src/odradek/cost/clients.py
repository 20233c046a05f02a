"""Prices of clients' traffic, by the network they are in."""

from __future__ import annotations

from enum import StrEnum


class Clients(StrEnum):
    """The place of a workload's clients."""

    AWS = "aws"  # in the region, through public or gateway endpoints: their traffic costs nothing
    NAT = "nat"  # in a private subnet, through a NAT gateway
    INTERNET = "internet"
