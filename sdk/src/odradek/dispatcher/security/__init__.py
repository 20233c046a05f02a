"""Requests that administer ACLs and SCRAM credentials, and SASL on a transport without it.

Which rights every API requires is in dispatcher/authorization.py; the gateway authenticates connections.
"""
