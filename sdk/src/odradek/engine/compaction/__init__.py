"""The log cleaner: a compacted topic keeps the last record of each key.

decisions.py says what may be cleaned and which record survives (pure); compactor.py rewrites segments and swaps index
rows under the maintenance lease; state.py is how far it has come.
"""
