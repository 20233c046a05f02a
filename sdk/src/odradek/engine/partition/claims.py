"""The decision about the leadership of a partition: pure and total. Partitions that share a head have one leader.

A partition has one leader at any time: the broker `li` of its head, under the epoch `le`. A *claim* is what a broker
appends by; it is a part of the condition of every append.

    fleet       li = 0              any function may append; the epoch does not matter (below)
    a gateway   li = its id, le = the epoch that it took

    head says                                     the fleet           a gateway
    led by us, by a claim that we hold            append              append
    led by us, but not by our claim               -                   take: another incarnation of this id did it
    led by the fleet                              append              take
    led by a gateway whose registration is over   take                take
    led by a gateway that is alive                NOT_LEADER          NOT_LEADER

Every taking raises the epoch, on condition that leader and epoch are as seen, so one epoch has one taker. Clocks decide
only which broker may try: the head refuses one that has lost the epoch, however late its append arrives.

The fleet needs no epoch. A function that stalled while a gateway took the partition and gave it back appends at the end
of the log like any other function, and its entry is applied once (append/decisions.py). Only an answer needs care: a
fleet's attempt of unknown outcome may still be applied once the fleet leads again, so a refusal after it is no proof.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from odradek.engine.partition.fields import is_version
from odradek.engine.partition.head import VERSION, PartitionHead
from odradek.engine.partition.shared_head import HeadImage
from odradek.errors import ErrorCode, KafkaError
from odradek.model.cluster import FLEET_BROKER_ID
from odradek.ports.table import Action, Compare, Condition, Copy, Item, Set, all_of


@dataclass(frozen=True, slots=True)
class Claim:
    """By what right a broker appends."""

    leader_id: int
    leader_epoch: int | None  # None: the fleet's, whatever the epoch
    epoch_start: int | Mapping[str, int] = 0  # first offset of the epoch; of a shared head by place

    @property
    def condition(self) -> Condition:
        """The clause of a write that is applied only under this claim."""
        leader = Compare(("li",), "=", self.leader_id)
        return leader if self.leader_epoch is None else all_of(leader, Compare(("le",), "=", self.leader_epoch))

    def is_of(self, item: Item) -> bool:
        """Return True if the head's item meets the condition."""
        return item.get("li") == self.leader_id and self.leader_epoch in (None, item.get("le"))

    def holds(self, head: HeadImage) -> bool:
        """Return True if the head still grants the claim."""
        return head.leader_id == self.leader_id and self.leader_epoch in (None, head.leader_epoch)


FLEET_CLAIM = Claim(FLEET_BROKER_ID, None)


@dataclass(frozen=True, slots=True)
class Lead:
    """We lead by this claim."""

    claim: Claim


@dataclass(frozen=True, slots=True)
class Take:
    """The partition may be taken over from the leader in the head."""


@dataclass(frozen=True, slots=True)
class AskBrokers:
    """It depends on whether this broker is still there."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class Follow:
    """Another broker leads."""


Verdict = Lead | Take | AskBrokers | Follow


def decide_leadership(
    head: HeadImage, broker_id: int, claim: Claim | None, leader_is_gone: bool | None = None
) -> Verdict:
    """Decide the next step of a broker that wants to lead.

    Args:
        broker_id: the broker's id.
        claim: its earlier claim, if any.
        leader_is_gone: True or False by the registry; None: not known yet.
    """
    if broker_id == FLEET_BROKER_ID:
        claim = FLEET_CLAIM
    if claim is not None and claim.holds(head):
        return Lead(claim)
    if head.leader_id in (FLEET_BROKER_ID, broker_id):
        return Take()
    if leader_is_gone is None:
        return AskBrokers(head.leader_id)
    return Take() if leader_is_gone else Follow()


def handover(
    leader_id: int, leader_epoch: int, to_broker_id: int, *, shares_head: bool = False
) -> tuple[Condition, tuple[Action, ...]]:
    """The head's update that ends an epoch and begins the next; its start is the next offset of that very moment."""
    condition = all_of(is_version(VERSION), Compare(("li",), "=", leader_id), Compare(("le",), "=", leader_epoch))
    actions: tuple[Action, ...] = (
        Set(("li",), to_broker_id),
        Set(("le",), leader_epoch + 1),
        Copy(("es",), ("n",) if shares_head else ("no",)),
    )
    return condition, actions


def check_leader_epoch(current_leader_epoch: int, head: PartitionHead) -> None:
    """Raise KafkaError if the client's leader epoch is not the head's (KIP-320); -1 is not checked."""
    if 0 <= current_leader_epoch < head.leader_epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"the leader epoch is {head.leader_epoch}: refresh metadata")
    if current_leader_epoch > head.leader_epoch:
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"the leader epoch is still {head.leader_epoch}")
