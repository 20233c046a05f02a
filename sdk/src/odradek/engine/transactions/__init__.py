"""Transactions: one TransactWriteItems over heads, offsets and the transactional id's row.

decisions.py is the state machine of a transactional id (pure), commit.py builds the one write that makes everything
visible; numbered_batches.py is the exactly-once append of the Spark sink.
"""
