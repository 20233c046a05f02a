"""Access: who may do what, and how much of it.

ACL rules and their evaluation (decisions.py is pure), users with SCRAM credentials, and client quotas. The dispatcher
asks; nothing in the log or the groups knows of principals.
"""
