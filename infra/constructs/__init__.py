"""One capability per file. A construct knows nothing about stacks or stages except its arguments."""
