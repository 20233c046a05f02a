"""DynamoDB and S3 without botocore's clients: what a function calls, over HTTP/1.1.

botocore reads the description of a service, compiles it and resolves credentials and endpoints by chains of providers.
That was half of the CPU of a function's cold start, and most of the CPU of a small call. A function needs none of
it: its credentials are environment variables, its endpoints follow from the region, and it makes ten kinds of calls.

The clients of this package have the methods of botocore's that the adapters call, with the same parameters, results and
exceptions, so that one adapter and one contract suite serve both (docs/decisions/0074). `access.py` says when they may
be used; whatever they cannot do is done by botocore's client, made when it is first needed.
"""

from __future__ import annotations
