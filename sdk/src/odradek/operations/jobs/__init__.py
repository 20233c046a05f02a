"""Jobs: those of the wheel (installed.py), and a deployment's runs on Glue (runs.py)."""
