"""Leadership: which gateway, or the fleet of functions, appends to a partition.

leaders.py takes, renews and gives back the lease in a partition's head; brokers.py registers gateways; view.py says
what Metadata answers. The rules of a claim are in partition/claims.py.
"""
