"""The catalog: topics, their configurations, and producer ids.

A topic exists from its catalog row on: its heads are created before and deleted after it. The sweep's floor is kept
here as well, since new heads start with it.
"""
