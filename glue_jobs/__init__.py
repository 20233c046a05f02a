"""Glue jobs: a folder per job; job.py has arguments, session and call, transform.py DataFrame in, DataFrame out."""
