"""Stream SQL: script.py checks scripts and completes words, graph.py draws plans, jobs.py runs scripts as processes."""
