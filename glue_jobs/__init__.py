"""Glue jobs: one folder a job, job.py (arguments, session, call) and transform.py (DataFrame in, DataFrame out)."""
