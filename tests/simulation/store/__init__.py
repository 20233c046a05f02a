"""The store of a run: memory adapters under a witness, and ports at which every call has a fate."""
