"""The parts of planning a statement that script.py puts together."""
