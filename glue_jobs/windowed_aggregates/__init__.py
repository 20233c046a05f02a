"""Counts, sums, means, distinct values, percentiles and the largest values in tumbling, sliding and session windows."""
