"""The share consumer (KIP-932): consumer.py is asynchronous, sync.py its blocking face."""
