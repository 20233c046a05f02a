"""Health: the checks of a service and of a deployment (checks.py), and of provisioned tables (capacity.py)."""
