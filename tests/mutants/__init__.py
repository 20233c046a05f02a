"""Mutants: small changes of the engine and the gateway, to measure how many of them the simulation notices.

Planted bugs (tests/simulation/planted) show that the simulation finds what it was built to find; mutants were not
chosen for that. Each drops a condition, shifts a comparison, swaps two steps or skips a check.

    mutation.py    what a mutant is, and how it gets into a process without touching a file
    listed_*.py    the list
    trial.py       one mutant in one process, seed by seed, until one notices
    __main__.py    `make mutants`: all of them, resumable; the score

A mutant that no seed notices is either equivalent, with the reason in the list, or names the test that fails with it.
"""
