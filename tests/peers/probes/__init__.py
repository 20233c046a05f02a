"""The probes, one module a family; tests/peers/__init__.py says how to add one."""
