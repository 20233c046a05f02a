"""The classic group protocol: JoinGroup and SyncGroup over one versioned item a group.

decisions.py is the state machine (pure); groups.py applies a decision on the version that it read. Offsets of such
groups are in offsets/classic.py.
"""
