"""The consumer: consumer.py (asynchronous) and sync.py (blocking) over fetcher, membership and positions.

fetcher.py keeps the buffers full, membership.py implements the group protocol, positions.py holds the offsets.
"""
