"""A script of stream SQL as a job."""
