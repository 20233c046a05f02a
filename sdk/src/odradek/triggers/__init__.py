"""Triggers: a function is called with the new records of a topic (docs/triggers.md, docs/decisions/0037-triggers.md).

definition    what a trigger is, and its item
filters, event, progress    pure: patterns, the event and its response, what comes after a call
leases        who may call with a partition's records, and its committed offset
drain         one partition: read, call, commit
dispatcher    one message: the partitions of a head, then the mark
sweep         what lost messages and dead dispatchers left
targets, failures    what is called, and where what failed goes
triggers, api    create, list, describe, pause, resume, reset, delete; their REST API
"""
