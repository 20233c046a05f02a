"""Planted bugs, one module an area of the engine. bug.py registers them; listed.py imports every module."""
