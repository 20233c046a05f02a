"""Request and response messages of the client, one module an API family: plain values in, plain values out."""
