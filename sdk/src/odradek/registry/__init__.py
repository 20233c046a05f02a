"""The schema registry: Confluent's REST API over the catalog table, so that the clients that people have work with it.

    HTTP ─> api.py (routes, rights) ─> subjects.py (procedures over the table) ─> rows.py (items)
                                            └─> schemas.py ─> avro.py, json_schema.py, protobuf_*.py   (pure)
                                            └─> compatibility.py ─> compatibility_{avro,json,protobuf}.py (pure)

It is served by a function (functions/registry.py) and, for clients that cannot sign, by the gateway's plain HTTP port
(gateway/registry_port.py). No library of a schema language is needed: parsing and compatibility are decided here, so
that a function starts fast and what is refused is refused for a reason that can be read.
"""
