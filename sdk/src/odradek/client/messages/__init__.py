"""Request and response messages of the client, one module per API family: plain values in, plain values out."""

from odradek.protocol import kio_alone  # noqa: F401  # before kio
