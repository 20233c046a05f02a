"""The producer: producer.py (asynchronous) and sync.py (blocking) over accumulator, lanes and sender.

The accumulator gathers batches, a lane keeps one partition's order and sequences, and the sender decides what to send
again.
"""
