"""A partition's items: head, index rows, leader epochs and the maintenance lease.

index.py holds every conditional write on them (append, spill, row swap, log start); the other modules are the items'
codecs and claims. What a refusal means is decided by the callers.
"""
