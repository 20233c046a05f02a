"""Iceberg tables of topics: metadata that follows the rows of the log table.

decisions.py  which files, which offsets (pure)
state.py      what the store knows of a topic's table: one item
follower.py   brings a table up to the rows, and lets go of files before they are deleted
"""
