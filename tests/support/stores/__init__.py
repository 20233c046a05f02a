"""Stores, and what tests put into them: AWS's emulators, limits, segments, golden releases."""
