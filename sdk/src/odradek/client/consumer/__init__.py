"""The consumer: consumer.py (asynchronous) and sync.py (blocking) over fetcher, membership and positions.

fetcher.py keeps the buffers full, membership.py speaks the group protocol, positions.py decides where reading starts.
"""
