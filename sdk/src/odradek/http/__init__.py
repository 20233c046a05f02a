"""The base of every HTTP and WebSocket port: nothing else in the wheel listens, but for the Kafka port.

ports.py     the table of all ports: guard, limits, logins, audit
browsers.py  refusal of what a page in a browser may have sent
logins.py    basic authentication, with a delay after a failure
audit.py     lines of the audit log for requests and failed logins
peers.py     limits of a connection, and of all of a port
port.py      a port of aiohttp's requests                  asgi.py   a port of an ASGI application, with HTTP/2
"""
