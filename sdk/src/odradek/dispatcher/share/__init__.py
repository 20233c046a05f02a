"""Requests of share groups (KIP-932): membership, ShareFetch and ShareAcknowledge, and share-group offsets.

The coordinator function serves all of them, because acknowledging records writes to the store.
"""
