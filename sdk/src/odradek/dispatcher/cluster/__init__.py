"""Requests about the cluster: ApiVersions, Metadata, DescribeCluster, FindCoordinator.

They tell a client which versions it may use, which address leads a partition, and which address coordinates a group.
"""
