"""Streams groups (KIP-1071): topologies, tasks, and the heartbeats that assign them.

topology.py decides about topics, assignor.py about the target, decisions.py about a heartbeat: all pure. groups.py
reads the topics and the configuration, and runs the common loop of heartbeats.
"""
