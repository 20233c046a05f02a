"""Consumer groups of KIP-848, and the parts that all kinds of groups share.

decisions.py computes heartbeats, epochs and grants (pure), assignors.py the target assignment; store.py reads and
writes a group's items. admin.py describes, lists and deletes groups of every kind.
"""
