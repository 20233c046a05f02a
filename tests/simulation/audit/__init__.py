"""The audit at the end of a run: auditor.py runs the checks on the ledger, the history and the store."""
