"""Stock clients in the simulation: producers that follow the rules of Java's client, of librdkafka and of aiokafka.

cluster.py     gateways of the real classes, each in a process that crashes, stalls and restarts
wire.py        a connection between a client and a gateway, without sockets
producer.py    what the clients share: an application, requests, the audit's evidence
java.py, librdkafka.py, aiokafka.py    the rules, each with its source
"""
