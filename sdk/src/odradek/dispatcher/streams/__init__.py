"""Requests of streams groups (KIP-1071): StreamsGroupHeartbeat and StreamsGroupDescribe."""
