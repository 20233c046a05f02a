"""The client SDK: Producer, Consumer, Admin.

    producer.py  consumer.py  admin.py      the implementation, async (public as odradek.aio)
    sync_*.py                               thin synchronous faces, each over one background loop (public as odradek)
    transport.py  http_transport.py         a request message to the function that owns it, and its answer
    retry.py                                the one place that decides what is tried again, and when

Nothing is imported here: `import odradek` must stay light for those who need no client.
"""
