"""Requests that administer ACLs and SCRAM credentials, and SASL on a transport without it.

The rights that every API requires are in dispatcher/authorization.py; the gateway authenticates connections.
"""
