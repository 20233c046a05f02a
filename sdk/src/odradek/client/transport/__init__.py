"""Transports carry a message to its function: base.py is the contract, http.py signs calls of function URLs."""

from odradek.protocol import kio_alone  # noqa: F401  # before kio
