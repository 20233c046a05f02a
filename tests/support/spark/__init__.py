"""A local Spark: its session, a sink's log, jobs, and the flights that they compute on."""
