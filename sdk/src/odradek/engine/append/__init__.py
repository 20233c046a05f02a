"""Append: validate, upload once, then one conditional update per partition.

decisions.py decides what an append may do, from the head that refused it; conditional_append.py is the loop around one
update; upload.py and wal.py make the bytes durable before any offset exists.
"""
