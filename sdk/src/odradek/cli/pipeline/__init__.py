"""Commands that start Spark on this machine: `jobs`, `sql` and `demo`."""
