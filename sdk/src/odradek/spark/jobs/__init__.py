"""The shared code of the jobs in glue_jobs/, so that a job is its arguments and one function of DataFrames.

arguments.py     dataclasses of arguments: command line, Glue's parser, one YAML file
run.py           session, signals, one line for an error, one JSON line for the summary
streams.py       a streaming query: once or until stopped, with back-off when there is nothing to read
progress.py      the progress of a query, as a line or for CloudWatch: pure
listener.py      Spark's listener, which prints the progress and measures the reader's lag
values.py        records <-> columns: JSON values, keys, dead letters
latest.py        a compacted topic as a table, kept up to date between micro-batches
files.py         small files in a folder or a bucket: configuration, checkpoints
slices.py        a table written slice by slice, each once
"""
