"""Request and response messages of the client, one module per API family: plain values in, plain values out."""
