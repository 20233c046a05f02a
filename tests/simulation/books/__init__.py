"""The evidence of a run: what was written, checked at every write, and what actors saw.

ledger.py hands each write to the books of its kind; truth.py derives the true logs; history.py belongs to the actors.
"""
