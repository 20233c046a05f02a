"""Access: ACLs, users and quotas.

ACLs and their evaluation (decisions.py is pure), users with SCRAM credentials, and client quotas. The dispatcher
checks them; the log and the groups know nothing of principals.
"""
