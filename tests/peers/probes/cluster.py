"""Probes of the cluster: versions, metadata, coordinators, log directories."""

from __future__ import annotations

from tests.peers.probe import Answer, Peer, pick, probe


@probe
def describe(peer: Peer) -> Answer:
    return peer.call("DescribeCluster")


@probe
def metadata_of_a_name_twice(peer: Peer) -> Answer:
    topic = peer.topic()
    answer = peer.call("Metadata", Topics=[{"Name": topic}, {"Name": topic}])
    return [pick(each, "ErrorCode", "Name") for each in answer["Topics"]]
