"""The producer: producer.py (asynchronous) and sync.py (blocking) over accumulator, lanes and sender.

The accumulator builds batches, a lane keeps the order and the sequences of one partition, and the sender decides what
is sent again.
"""
