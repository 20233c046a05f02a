"""Requests of consumer groups, by KIP-848 and by the classic protocol, and their committed offsets.

Listing, describing and deleting serve groups of every kind, share groups too.
"""
