"""The client SDK: Producer, Consumer, ShareConsumer, Admin.

    producer/  consumer/  share/  admin/    the clients: asynchronous (public as odradek.aio), and in each sync.py a
                                            blocking face over one background loop (public as odradek)
    messages/                               requests and answers, one module an API family
    transport/                              a request message to the function that owns it, and its answer
    serializers/                            JSON, Avro and Protobuf with the schema registry
    retry.py                                the one place that decides what is tried again, and when

Nothing is imported here: `import odradek` must stay light for those who need no client.
"""
