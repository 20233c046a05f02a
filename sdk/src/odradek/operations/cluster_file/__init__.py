"""Cluster files: what a log has, as one YAML file. `odradek apply` makes the service so; `odradek export` writes it.

    contents.py   the file as plain data, and as the mapping that is written
    reading.py    YAML -> contents; every mistake with its line
    present.py    the service -> contents
    plan.py       contents wanted and present -> changes, in the order in which they are made
    checks.py     the service's opinion of a plan, before anything is changed
    applying.py   the changes, one after the other
    statements.py stream SQL: which statements say the same, and which come first

A section that the file does not have is neither read nor changed. What the service has beyond the file stays, unless
the caller prunes: then it is deleted, and configurations that the file does not name return to their defaults.
"""

from __future__ import annotations
