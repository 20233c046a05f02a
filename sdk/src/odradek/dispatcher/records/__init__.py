"""Requests that read and write records: Produce, Fetch, ListOffsets, OffsetForLeaderEpoch, DeleteRecords.

Each failure belongs to one partition. A handler refuses a request that names the same partition twice.
"""
