"""Maintenance: everything that happens to stored records without a client asking.

Merge, retention, the sweep of unreferenced uploads, orphaned segments and expired producers. maintenance.py plans by
reads and runs tasks, each under the partition's maintenance lease.
"""
