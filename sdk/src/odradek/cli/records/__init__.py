"""Commands that read and write records: `produce`, `consume` (also as a share group) and `perf`."""
