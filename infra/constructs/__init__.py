"""One capability a file. A construct knows nothing of stacks or stages beyond its arguments."""
