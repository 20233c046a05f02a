"""How a message reaches its function: base.py is the contract, http.py signed calls of function URLs."""
